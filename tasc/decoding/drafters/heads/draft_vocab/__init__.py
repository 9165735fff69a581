"""The rows of the LM head that a draft scores: all, the most frequent, or those of a window."""
