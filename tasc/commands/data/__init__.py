"""``tasc data``: a task's examples as a model sees them."""
