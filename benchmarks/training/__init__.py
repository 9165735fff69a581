"""Benchmarks of training: what it costs, and what quality it brings."""
