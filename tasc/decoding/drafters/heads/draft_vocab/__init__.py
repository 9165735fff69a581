"""Which rows of the LM head a draft scores: all, the most frequent, or those of a window."""
