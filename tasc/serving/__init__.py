"""What serving engines load: exports of models and indexes, drafters in an engine's own terms."""
