"""Encoded examples, the schedule, and the arithmetic of all training."""
