"""Everything that only a GPU can show: ``python -m benchmarks.gpu``, or ``make gpu-bench``."""
