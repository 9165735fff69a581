"""Hook of mkdocs: files outside of docs/ that pages link to are part of the site.

Pages link to them by their path in the repository, so a link works on GitHub and on the site.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[1]
# From the file, relative to docs/, to its address on the site.
OUTSIDE = {"../SECURITY.md": "security.html", "../CHANGELOG.md": "changelog.html"} | {
    f"../benchmarks/results/{path.name}": f"results/data/{path.name}"
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.json"))
}


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Add the files outside of docs/."""
    from mkdocs.structure.files import File, InclusionLevel

    kept = InclusionLevel.INCLUDED  # a path that begins with a dot is else excluded
    places = config.docs_dir, config.site_dir, config.use_directory_urls
    for source, address in OUTSIDE.items():
        files.append(File(source, *places, dest_uri=address, inclusion=kept))
    return files
