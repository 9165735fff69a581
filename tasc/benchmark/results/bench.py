"""What a bench leaves: ``results.json``, typed.

The file's version rises when a field goes or changes its meaning. The JSON schema in the docs is
made from these classes.
"""

from typing import Literal

from tasc.benchmark.metrics import find
from tasc.benchmark.metrics.metric import Metric
from tasc.benchmark.results.cells import Cell, ReferenceMatch
from tasc.benchmark.results.comparisons import CellComparison, ModelPair, Seeds, SeedsPair
from tasc.benchmark.results.conditions import Example, RunResult, Sample, Settings, Task
from tasc.benchmark.results.prediction import Prediction

VERSION: Literal[1] = 1


class BenchResults(RunResult):
    """Models and methods measured side by side."""

    version: Literal[1] = VERSION
    """Of this format."""
    task: Task
    settings: Settings
    samples: tuple[Sample, ...]
    """In the order of each cell's outputs."""
    examples: tuple[Example, ...]
    """The first prompts."""
    cells: tuple[Cell, ...]
    """Each model with each method."""
    reference: tuple[ReferenceMatch, ...]
    """Each model against transformers' own decoding."""
    comparisons: tuple[CellComparison, ...]
    """Each cell against the first one, and against the first method of its model."""
    pairs: tuple[ModelPair, ...]
    """Each model against those before it."""
    seeds: tuple[Seeds, ...]
    """Models of several seeds."""
    seeds_pairs: tuple[SeedsPair, ...]
    """Each of those against those before it."""
    prediction: Prediction
    resumed_turns: int = 0
    """Turns of a cell that an interrupted run had measured before."""

    @property
    def metrics(self) -> dict[str, Metric]:
        """Each metric by its name."""
        return {name: find(name) for name in self.settings.metrics}
