"""A time that repeats itself, among outliers."""


class Typical:
    """A running median of times: what else runs on the machine must not be charged to drafting."""

    def __init__(self) -> None:
        """Know no time yet."""
        self.value, self.known = 0.0, False

    def add(self, seconds: float) -> None:
        """Begin with the first; then step a fifth towards each."""
        if not self.known:
            self.value, self.known = seconds, True
        else:
            self.value *= 1.2 if seconds > self.value else 1 / 1.2
