"""Low-rank adapters, and full fine-tuning."""
