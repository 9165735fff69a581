"""Drafters that count or match n-grams, and the index of a corpus."""
