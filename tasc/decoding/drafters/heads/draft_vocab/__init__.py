"""The rows of the LM head that a draft scores: all, the most frequent, or a window."""
