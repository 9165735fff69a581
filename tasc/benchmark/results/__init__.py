"""The typed results that commands write and read, such as ``results.json``."""
