"""New tokens in a tokenizer.json: as entries of its vocabulary, or as added tokens."""
