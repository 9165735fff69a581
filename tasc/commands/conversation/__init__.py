"""Talking to a model in the terminal: ``tasc chat``."""
