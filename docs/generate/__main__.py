"""Write the tables of README.md and docs/ and the JSON schema, and lay out result files."""

from docs.generate.pages import ROOT, outdated

for path, text in outdated().items():
    path.write_text(text, encoding="utf-8")
    print(f"wrote {path.relative_to(ROOT)}")  # noqa: T201 - a script
