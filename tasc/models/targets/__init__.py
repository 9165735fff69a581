"""Targets for models: the fastest one that is proved right, and one for a caller's model."""
