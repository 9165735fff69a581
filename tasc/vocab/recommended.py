"""The recommended size of those that an analysis looked at, by the rule of ``tasc augment``."""

from pathlib import Path

from tasc.analysis.outputs import encode_outputs
from tasc.analysis.report import Analysis
from tasc.data.corpus import Corpus
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.vocab.exports.export import Export
from tasc.vocab.search.budget import Point, budget_curve
from tasc.vocab.search.embedding_cost import embedding_cost
from tasc.vocab.search.options import OVERFIT_PENALTY


def recommended_size(
    analysis: Analysis, tokenizer: LoadedTokenizer, export: Export, held_out: Corpus | None
) -> Point | None:
    """Weigh every budget up to the largest of ``analysis``; None without merges.

    Rows cost what those of the model beside the tokenizer do, nothing where there is none.
    """
    once, result = analysis.searched, analysis.merges
    if once is None or result is None or not result.merges:
        return None
    others = encode_outputs(held_out.outputs, tokenizer, export) if held_out else None
    size = len(tokenizer.vocabulary())
    rows = embedding_cost(Path(tokenizer.path))
    return budget_curve(result, size, once, others, rows, OVERFIT_PENALTY).recommended_size
