"""The errors a user can meet. Each message says what was wrong, what was seen, and what to do."""


class TascError(Exception):
    """Base of all errors the command line turns into one line and exit code 2."""


class InputError(TascError):
    """The user's data, file, column, or option cannot be used."""


class RecipeError(TascError):
    """A recipe names an unknown key, a wrong type, or a step that cannot run."""


class UnavailableError(TascError):
    """Something optional is not built, not installed, or cannot be reached."""


class IntegrityError(TascError):
    """A file that this project wrote is truncated, corrupt, or made for something else."""


class StorageError(TascError):
    """The system has no room for, or no leave to make, a file that had to be written."""
