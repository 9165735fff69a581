"""The folders of models and heads: which files are read, what they hold, and the Hub."""
