"""What a task's data says before any model runs: entropy, coverage, budgets, a verdict."""
