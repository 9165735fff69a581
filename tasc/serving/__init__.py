"""What engines load: exports of models and indexes, and the classes that engines import."""
