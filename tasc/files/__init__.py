"""Files that appear whole or not at all, and folders that are safe to delete."""
