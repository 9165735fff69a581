"""BERTScore of Zhang et al. (2019, arXiv:1904.09675), as computed by the package bert-score.

F1 of tokens matched by the cosine of their embeddings, without idf weights or rescaling. With
transformers 5, the package needs three corrections: empty texts have no embeddings; a tokenizer
without a maximum length reports a huge one; and the space before the first word that RoBERTa and
GPT-2 need is lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tasc.benchmark.metrics.metric import Metric, counts_of, share
from tasc.errors import InputError
from tasc.models.folder.files import CONFIG, read_json, weight_files
from tasc.options.references import expanded

USAGE = "bert_score:model=DIR"
_LONGEST = 512  # tokens, the context of BERT and similar models
_UNLIMITED = 10**6
_TOKENIZER = "tokenizer_config.json"


@dataclass(frozen=True)
class BertScore:
    """BERTScore with the embeddings of one layer of a model."""

    model: str  # folder with config.json, safetensors weights and a tokenizer
    layer: int = 0  # layer of the embeddings, from 1; 0 is the last

    def check(self) -> None:
        """Raise InputError if the folder contains no usable model, or one with code."""
        folder, what = Path(self.model), f"model {self.model}"
        if not folder.is_dir():
            raise InputError(
                f"{what}: no such folder: bert_score does not download models; give a local folder"
            )
        config = read_json(folder / CONFIG, what)
        layers = config.get("num_hidden_layers")
        if not isinstance(layers, int) or not 0 <= self.layer <= layers:
            raise InputError(f"{what} has {layers} layers, not {self.layer}: give one with layer=N")
        tokenizer = read_json(folder / _TOKENIZER, what) if (folder / _TOKENIZER).exists() else {}
        if config.get("auto_map") or tokenizer.get("auto_map"):
            raise InputError(f"{what} contains code, which tasc does not run: give another model")
        weight_files(folder)

    def count(
        self, outputs: Sequence[str], references: Sequence[str], _delimiter: str
    ) -> np.ndarray:
        """Return F1 of each output, 0 if a side is empty, and 1: (N, 2)."""
        return counts_of(_scores(self, tuple(outputs), tuple(references)))

    @cached_property
    def scorer(self) -> Any:  # noqa: ANN401
        from bert_score import BERTScorer

        from tasc.models.folder.quiet import quiet

        self.check()
        layers = read_json(Path(self.model) / CONFIG, self.model)["num_hidden_layers"]
        with quiet():
            scorer = BERTScorer(
                model_type=self.model, num_layers=self.layer or layers, use_fast_tokenizer=True
            )
            scorer._tokenizer = _tokenizer(self.model, scorer._tokenizer)
        return scorer


@cache  # keeps the loaded model
def from_options(options: str) -> Metric:
    """Return the metric of ``model=DIR`` or ``model=DIR,layer=N``. Raises InputError."""
    text, _, layer = options.removeprefix("model=").partition(",layer=")
    if not options.startswith("model=") or not text or not (layer or "0").isdecimal():
        raise InputError(
            f"metric 'bert_score:{options}' must be {USAGE} or {USAGE},layer=N: give the "
            "folder of a model such as roberta-large, usually with layer=17"
        )
    folder = expanded(Path(text))
    bert_score = BertScore(str(folder), int(layer or 0))
    return Metric(
        f"BERTScore ({folder.name}{f', layer {bert_score.layer}' if bert_score.layer else ''})",
        "Mean over outputs of the F1 of tokens matched by their embeddings in model DIR.",
        bert_score.count,
        share,
        package="bert-score",
        ready=bert_score.check,
    )


def _tokenizer(model: str, loaded: Any) -> Any:  # noqa: ANN401
    """Return a folder's tokenizer with the properties that the package relies on."""
    from transformers import GPT2Tokenizer, RobertaTokenizer

    if isinstance(loaded, GPT2Tokenizer | RobertaTokenizer):
        loaded = type(loaded).from_pretrained(model, add_prefix_space=True)
    if loaded.model_max_length > _UNLIMITED:
        loaded.model_max_length = _LONGEST
    return loaded


@lru_cache(maxsize=64)  # methods of one model have equal outputs, and pairs count them again
def _scores(
    metric: BertScore, outputs: tuple[str, ...], references: tuple[str, ...]
) -> tuple[float, ...]:
    scores = np.zeros(len(outputs))
    pairs = zip(outputs, references, strict=True)
    whole = [i for i, pair in enumerate(pairs) if all(text.strip() for text in pair)]
    if whole:
        sides = [[texts[i] for i in whole] for texts in (outputs, references)]
        scores[whole] = metric.scorer.score(*sides)[2].double().numpy()
    return tuple(scores.tolist())
