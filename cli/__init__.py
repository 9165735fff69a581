"""The ``tasc`` command: one file a sub-command: parse, make one library call, render."""
