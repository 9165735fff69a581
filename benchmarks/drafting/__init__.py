"""Drafters without a model, compared with peers and with their own parts."""
