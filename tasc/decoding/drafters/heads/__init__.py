"""Draft trees from a trained head, over the target's vocabulary or part of it."""
