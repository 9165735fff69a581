"""The choice of n-grams to add, and of their number."""
