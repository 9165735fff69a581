"""Models: loading, new embedding rows, and the target that decoding runs on."""
