"""JSON Schemas as grammars of the texts that a task writes."""
