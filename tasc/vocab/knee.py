"""The knee of the budgets that an analysis looked at, by the rule of ``tasc augment``."""

from pathlib import Path

import numpy as np

from tasc.analysis.report import Analysis
from tasc.data.corpus import Corpus
from tasc.data.tokenizer import LoadedTokenizer
from tasc.vocab.budget import Point, budget_curve
from tasc.vocab.export import Export
from tasc.vocab.options import RISK_PRICE
from tasc.vocab.outputs import Outputs
from tasc.vocab.rows import row_cost


def knee(
    analysis: Analysis, tokenizer: LoadedTokenizer, export: Export, held_out: Corpus | None
) -> Point | None:
    """Weigh every budget up to the largest of ``analysis``; None without merges.

    Rows cost what those of the model beside the tokenizer do, nothing where there is none.
    """
    once, result = analysis.searched, analysis.merges
    if once is None or result is None or not result.merges:
        return None
    starts = np.empty(0, np.uint8) if once.starts is None else once.starts
    texts, weights = once.outputs.texts, once.outputs.weights
    outputs = Outputs(texts, weights, once.encoded, starts, export == "pretoken")
    others = Outputs.of(held_out.outputs, tokenizer, export) if held_out else None
    size = len(tokenizer.vocabulary())
    rows = row_cost(Path(tokenizer.path))
    return budget_curve(result, size, outputs, others, rows, RISK_PRICE).knee
