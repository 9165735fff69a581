"""Our own server: the OpenAI API on the engine that `tasc bench` measures."""
