"""What commands leave, typed to the end: the classes of ``results.json`` and its kin."""
