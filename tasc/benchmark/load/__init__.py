"""Servers under load: requests over HTTP, what comes back when, and what it is worth."""
