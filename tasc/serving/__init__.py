"""Exports for inference engines, and drafters that run inside them."""
