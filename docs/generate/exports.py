"""The table of engines that models are exported to, from the registry that the program uses."""

from docs.generate import markdown
from tasc.environment import DISTRIBUTION
from tasc.serving.table import EXPORTS


def engines(_block: str) -> str:
    """Return a table of all engines."""
    return markdown.table(
        ["`--to`", "engine", "needs", "drafts with", "what it cannot do"],
        [
            [
                f"`{name}`",
                entry.label,
                f"`{entry.installed_by(DISTRIBUTION)[0]}`"
                if entry.install.startswith("pip ")
                else entry.install,
                ", ".join(sorted(entry.drafts)),
                entry.limits,
            ]
            for name, entry in EXPORTS.items()
        ],
    )
