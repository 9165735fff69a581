"""One file an engine: what its folder holds, and the command that starts it."""
