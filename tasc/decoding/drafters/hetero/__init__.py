"""Drafters with their own vocabulary, one file per algorithm.

Timor et al., "Accelerating LLM Inference with Lossless Speculative Decoding Algorithms for
Heterogeneous Vocabularies", arXiv:2502.05202. Prefer ``slem`` and ``tli``. ``slrs`` accepts most
with drafters of short tokens; ``union`` serves for comparison.
"""
