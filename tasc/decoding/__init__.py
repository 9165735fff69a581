"""Lossless speculative decoding: draft a tree, verify it in one forward, keep the accepted path."""
