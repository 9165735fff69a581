"""What a tokenizer with new tokens does to the texts of a task."""
