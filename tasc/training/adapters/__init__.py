"""What of a model trains: low-rank adapters on it, or every weight."""
