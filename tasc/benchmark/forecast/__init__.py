"""What simulated drafts say before a model runs: the search, the verdict, the lengths to serve."""
