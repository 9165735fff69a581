"""Drafters that count or match n-grams, and the corpus index."""
