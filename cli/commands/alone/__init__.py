"""Commands that leave no artefact of their own: they show, check, compare, or run others."""
