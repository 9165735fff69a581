"""Training objectives: the module to train, its loss, and its evaluation."""
