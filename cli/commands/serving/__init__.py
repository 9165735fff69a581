"""Commands around an engine that serves: what it loads, starting it, measuring it."""
