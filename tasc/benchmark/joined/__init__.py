"""Several benches on one page."""
