"""Task data and tokenizers: sources, splits, built-in tasks, texts as token ids."""
