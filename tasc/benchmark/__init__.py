"""Measure models and methods on one decoding loop, and report."""
