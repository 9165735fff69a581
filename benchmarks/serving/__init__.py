"""Serving engines with drafts: the time of drafts per step, and the speed-up."""
