"""TASC-ft: choose new tokens for a task and write them into its tokenizer."""
