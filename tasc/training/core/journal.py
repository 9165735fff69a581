"""What accumulates while a model trains, and survives in its checkpoints."""

from dataclasses import dataclass, field


@dataclass
class Journal:
    """A run so far; the same in all processes that train together."""

    losses: list[float] = field(default_factory=list)  # of each step
    evaluations: list[dict[str, float]] = field(default_factory=list)  # fields of ``Evaluation``
    tokens: int = 0
    targets: int = 0
    seconds: float = 0.0

    @property
    def lowest(self) -> int:
        """The number of the evaluation with the lowest loss, the first of equals; 0 of none."""
        losses = [entry["loss"] for entry in self.evaluations]
        return losses.index(min(losses)) if losses else 0

    @property
    def waited(self) -> int:
        """How many evaluations there were since that one."""
        return max(0, len(self.evaluations) - 1 - self.lowest)
