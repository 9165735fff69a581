"""Which n-grams to add, and how many."""
