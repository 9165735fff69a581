"""TASC: task-adaptive compression pipelines for small language models."""

__version__ = "0.1.0"
