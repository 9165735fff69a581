"""A plug-in of SGLang: ``--speculative-algorithm TASC`` verifies our trees as it does its n-grams'.

SGLang finds ``register`` by the entry point group ``sglang.srt.plugins``. Its n-gram worker keeps
cache, verification and CUDA graphs; ours only puts another object in place of its corpus. Written
from the interface and tested against a stub of it: not run with the engine.
"""

import os
from pathlib import Path
from typing import Any

from tasc.decoding.drafters import Resources, parse
from tasc.decoding.drafters.ngram.index import load_index, method_for
from tasc.errors import InputError
from tasc.serving.drafts.trees import DraftTrees
from tasc.serving.parts import INDEX_FOLDER
from tasc.tokenizer.loaded import load_tokenizer

NAME = "TASC"
VARIABLE = "TASC_INDEX"  # folder of the index, where it does not lie in the model's
_WHOLE = 1 << 30  # tokens of a sequence that the worker hands over, instead of the last few


def register() -> None:
    """Make ``--speculative-algorithm TASC`` known. SGLang calls it once a process."""
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
    from sglang.srt.speculative.spec_registry import CustomSpecAlgo

    class Algorithm(CustomSpecAlgo):  # type: ignore[misc]
        def is_ngram(self) -> bool:
            return True

    def factory(server_args: Any) -> type:  # noqa: ANN401
        del server_args
        return worker()

    SpeculativeAlgorithm.register(
        NAME, supports_overlap=False, validate_server_args=check, spec_class=Algorithm
    )(factory)


def check(server_args: Any) -> None:  # noqa: ANN401
    """Refuse arguments without an index before the engine starts. Raises InputError."""
    trees(server_args)


def worker() -> type:
    """Return the class of the worker: SGLang's own, with our trees."""
    from sglang.srt.speculative.ngram_worker import NGRAMWorker

    class TascWorker(NGRAMWorker):  # type: ignore[misc]
        # Arguments have changed three times: they are handed on as they come.
        def __init__(self, server_args: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
            super().__init__(server_args, *args, **kwargs)
            self.max_trie_depth = _WHOLE
            self.ngram_corpus = trees(server_args)

    return TascWorker


def trees(server_args: Any) -> DraftTrees:  # noqa: ANN401
    """Return what drafts, from the index in the folder of the model or in $TASC_INDEX.

    Raises InputError where there is none, or it was counted with another tokenizer.
    """
    model = str(server_args.model_path)
    folder = Path(os.environ.get(VARIABLE) or Path(model) / INDEX_FOLDER)
    if not folder.is_dir():
        raise InputError(
            f"{folder} holds no index: make one with tasc index, name it in {VARIABLE}"
        )
    index = load_index(folder, load_tokenizer(model))
    nodes = int(server_args.speculative_num_draft_tokens or 0)
    if nodes < 2:
        raise InputError(f"--speculative-num-draft-tokens is {nodes}: give 2 or more")
    factory = parse(method_for(index)).prepare(Resources((), index.end, (index,)))
    return DraftTrees(factory, nodes)
