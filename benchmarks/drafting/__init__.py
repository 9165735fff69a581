"""Drafters without engines: beside peers, beside their own parts, as chains, with logits."""
