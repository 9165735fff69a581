"""The common parts of all commands' options: fields, bounds, references and data splits."""
