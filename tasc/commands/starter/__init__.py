"""``tasc init``: a recipe for a user's own data."""
