"""New tokens in a tokenizer.json: as words of its vocabulary, or as added tokens."""
