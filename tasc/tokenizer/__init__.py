"""Tokenizers: their files, checked, and what they make of a text."""
