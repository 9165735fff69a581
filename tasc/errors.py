"""Errors for users. Each message has the problem, the value found, and the fix."""


class TascError(Exception):
    """Base of all errors that the command line prints in one line, with exit code 2."""


class InputError(TascError):
    """Data, a file, a column or an option cannot be used."""


class RecipeError(TascError):
    """A recipe has an unknown key, a wrong type, or a step that cannot run."""


class UnavailableError(TascError):
    """Something optional is not built, not installed, or cannot be reached."""


class IntegrityError(TascError):
    """A file that tasc wrote is truncated, damaged, or belongs to something else."""


class StorageError(TascError):
    """A file cannot be written: the disk is full or read-only."""
