"""What every training shares: rows of tokens, and the schedule."""
