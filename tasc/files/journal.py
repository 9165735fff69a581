"""A file of lines that grows with the work done, from which an ended run goes on."""

from pathlib import Path


class Journal:
    """Lines of text, each written when it is known.

    Attributes:
        lines: those that a run before left, whole ones only; none where there is nothing to resume.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        """Read what ``path`` holds, or begin anew: the file is made with the first line."""
        self._path, self.lines = path, list[bytes]()
        if resume and path.exists():
            # The last line may have been cut off, and is cut off here.
            whole, newline, _ = path.read_bytes().rpartition(b"\n")
            path.write_bytes(whole + newline)
            self.lines = whole.split(b"\n") if whole else []
        else:
            path.unlink(missing_ok=True)

    def add(self, *lines: str) -> None:
        """Write lines without line breaks of their own."""
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)

    @property
    def damaged(self) -> str:
        """What to say where a line is not what was written."""
        return f"{self._path} is damaged: leave --resume out, which begins anew"
