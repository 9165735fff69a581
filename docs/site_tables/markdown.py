"""What tables of the site are made of."""

from tasc.report.markdown import code, table

__all__ = ["VALUES", "code", "table"]

VALUES = {int: "integer", float: "number", str: "text", bool: "switch"}  # what an option takes
