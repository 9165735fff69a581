"""Time the TASC-ft merge search on EUR-LEX and MedQuAD training outputs in GPT-2 tokens.

--trainer also times BpeTrainer of `tokenizers`, without a pre-tokenizer, on the same texts for as
many merges. The trainer starts from characters and merges pairs. The search starts from tokens, and
tokenization is timed separately. Each data set runs in a process of its own, which gives its own
peak memory. Usage: python -m benchmarks.merge_search --data-dir DIR [--json FILE]
"""

import argparse
import json
import statistics

import numpy as np
from tokenizers import Tokenizer, models, trainers

from benchmarks.figures import peak_bytes, publish, run_alone, script, timed
from tasc.backend import MergeRequest, merge_search
from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.tokenizer.loaded import load_tokenizer

DATA_SETS = ("eur-lex", "medquad")


def main() -> None:
    """Measure all data sets and print the figures as JSON."""
    parser = script(__doc__, data=True, budget=1000, n_max=4, repeats=5)
    parser.add_argument("--tokenizer", help="default: tokenizers/gpt2 in the data folder")
    parser.add_argument(
        "--boundaries",
        action="store_true",
        help="keep pre-token boundaries, as the pretoken export does",
    )
    parser.add_argument("--trainer", action="store_true", help="also time BpeTrainer")
    parser.add_argument("--only", choices=DATA_SETS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(options)))  # noqa: T201 - a script
        return
    results = [run_alone("benchmarks.merge_search", "--only", name) for name in DATA_SETS]
    publish({"results": results}, options.json)


def measure(options: argparse.Namespace) -> dict[str, object]:
    """Search all outputs without joining equal ones, so that all tokens are indexed."""
    base = load_tokenizer(options.tokenizer or str(options.data_dir / "tokenizers" / "gpt2"))
    texts = load(Source(str(options.data_dir / options.only)), "train").outputs
    encoding, (encoded, starts) = timed(lambda: base.encode_with_boundaries(texts))
    request = MergeRequest(
        tokens=encoded.tokens,
        offsets=encoded.offsets,
        weights=np.ones(len(texts), np.int64),
        vocabulary=base.vocabulary(),
        special=base.special_ids,
        budget=options.budget,
        n_max=options.n_max,
        boundaries=starts if options.boundaries else None,
    )
    before = peak_bytes()
    seconds, trainer = [], []
    for _ in range(options.repeats):
        elapsed, result = timed(lambda: merge_search(request))
        seconds.append(elapsed)
        if options.trainer:
            trainer.append(timed(lambda: train(texts, options.budget))[0])
    return {
        "data": options.only,
        "outputs": len(texts),
        "tokens_before": result.tokens_before,
        "tokens_after": result.last[0],
        "merges": len(result.merges),
        "median_s": statistics.median(seconds),
        "all_s": seconds,
        "encode_s": encoding,
        "trainer_all_s": trainer,
        "trainer_ratio": [theirs / ours for theirs, ours in zip(trainer, seconds, strict=False)],
        "peak_rss_bytes": peak_bytes(),
        "peak_rss_before_search_bytes": before,
    }


def train(texts: list[str], merges: int) -> Tokenizer:
    """Return a byte-pair encoding of whole texts, trained from characters."""
    alphabet = len({letter for text in texts for letter in text})
    trainer = trainers.BpeTrainer(vocab_size=alphabet + merges, show_progress=False)
    made = Tokenizer(models.BPE())
    made.train_from_iterator(texts, trainer)
    assert made.get_vocab_size() == alphabet + merges
    return made


if __name__ == "__main__":
    main()
