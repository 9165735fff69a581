"""The effect of a tokenizer with new tokens on the texts of a task."""
