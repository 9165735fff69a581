"""A file a command: what it is called, and how its result is shown."""
