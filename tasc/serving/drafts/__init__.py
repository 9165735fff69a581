"""Drafts for an engine: chains for all requests of a step."""
