"""Drafters with a vocabulary of their own, a file an algorithm.

Timor et al., "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for
Heterogeneous Vocabularies". ``slem`` and ``tli`` are what to use; ``slrs`` accepts the most of
drafters with short tokens, and ``union`` is there to be compared with.
"""
