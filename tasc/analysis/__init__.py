"""Analysis of a task's data without a model: entropy, coverage, token statistics."""
