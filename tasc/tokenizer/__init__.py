"""Tokenizers: reading and checking their files, and encoding texts."""
