"""MicroSpec: the draft head scores the tokens of a sliding window alone (arXiv:2605.26444)."""
