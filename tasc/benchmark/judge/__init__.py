"""A language model that judges the outputs of others."""
