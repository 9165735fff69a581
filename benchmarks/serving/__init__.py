"""Serving engines with drafts: what a step waits for, and what a server brings."""
