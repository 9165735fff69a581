"""A drafter for vLLM: ``--speculative-config '{"method": "custom_class", "model": …}'``.

vLLM requests chains between its steps, in its own process. This class drafts them from tokens alone
and changes no output. Its options are in ``--additional-config``, under ``tasc``.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import Field, ValidationError

from tasc.decoding.core.grammar import Grammar
from tasc.decoding.drafters import Factory, Method, Resources, parse
from tasc.decoding.drafters.ngram.index import FILE, indexed_outputs, load_index
from tasc.errors import InputError, TascError
from tasc.models.cost_model import TOKEN_COST, CostModel
from tasc.options.constraint import read_constraint
from tasc.options.explain import explain
from tasc.options.task import Options
from tasc.serving.drafts.policy import ChainPolicy
from tasc.serving.drafts.proposer import ChainProposer, Sizes
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer

KEY = "tasc"  # of additional_config
EVERY = 1.0  # seconds between two checks for replaced indexes
_WRONG_SAMPLES = (
    "this build of vLLM ignores the temperature of requests with drafts (vLLM issue 55005), so "
    "samples are wrong: use temperature 0, or serve without drafts"
)

_STATEFUL = (
    "{} has layers with a recurrent state. After a step without a draft, vLLM reads a wrong state "
    "for such a request (vLLM issue 39273), and drafts from n-grams are not found for every step: "
    "serve this model without --speculative-config, or decode it with tasc bench"
)


class ProposerOptions(Options):
    """The options under ``tasc`` in vLLM's ``additional_config``."""

    index: str | dict[str, str] = Field(
        default_factory=dict,
        description="Folder of tasc index, made with the served model's tokenizer; or several "
        "folders by name.",
    )
    use: list[str] | None = Field(
        None, description="Names of the indexes to draft from (default: all)."
    )
    method: str = Field(
        "tasc-spec",
        description="Method as in tasc bench. tasc-spec drafts from the indexes, the prompt, and "
        "the outputs of finished requests.",
    )
    schema: str | None = Field(  # type: ignore[assignment]
        None,
        description="JSON Schema, a file: drafts satisfy it. Requests ask for such outputs with "
        "response_format.",
    )
    grammar: str | None = Field(None, description="Grammar in Lark, a file, that drafts satisfy.")
    regex: str | None = Field(None, description="Regular expression that drafts match.")
    guard: bool = Field(
        True, description="Adaptive drafting: draft less while drafts are rejected."
    )
    cost: float | dict[int, float] = Field(
        TOKEN_COST,
        description="Cost of a drafted token, as a share of a step of one token; or seconds of a "
        "step by its number of tokens.",
    )
    threads: int = Field(
        2,
        ge=1,
        description="Number of threads for drafting steps of 0.2 ms or more; at most the cores of "
        "the engine's process.",
    )

    @classmethod
    def read(cls, additional: Mapping[str, Any] | None) -> Self:
        """Read the options from vLLM's ``additional_config``.

        Raises:
            InputError: an unknown key or an invalid value.
        """
        try:
            return cls.model_validate((additional or {}).get(KEY, {}))
        except ValidationError as error:
            problems = "; ".join(explain(list(error.errors())))
            raise InputError(f"additional_config[{KEY!r}]: {problems}") from None

    def folders(self) -> list[Path]:
        """Return the folders of the indexes to use.

        Raises:
            InputError: ``use`` has an unknown name.
        """
        named = {"index": self.index} if isinstance(self.index, str) else self.index
        for name in self.use or ():
            if name not in named:
                raise InputError(
                    f"use: no index is called {name!r}; indexes: {', '.join(named) or 'none'}"
                )
        return [Path(named[name]).expanduser() for name in (self.use or named)]


class Watch:
    """Notices replaced files, with one check per ``EVERY`` seconds at most."""

    def __init__(self, files: Sequence[Path], clock: Callable[[], float] = time.monotonic) -> None:
        self.files, self.clock = files, clock
        self.next = clock() + EVERY
        self.stamps = [_stamp(file) for file in files]

    def changed(self) -> bool:
        """Return whether a file was replaced since the last change; all files must exist."""
        now = self.clock()
        if now < self.next or not self.files:
            return False
        self.next = now + EVERY
        stamps = [_stamp(file) for file in self.files]
        if stamps == self.stamps or None in stamps:
            return False
        self.stamps = stamps
        return True


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        stat = file.stat()
    except OSError:  # deleted, or about to be replaced
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


class TascProposer:
    """A proposer of draft tokens for vLLM (V1, ``custom_class``)."""

    def __init__(self, vllm_config: Any, *_: Any) -> None:  # noqa: ANN401 - vLLM's own
        """Read the indexes in ``vllm_config.additional_config``.

        Raises:
            InputError: an invalid option or index, or a model whose state vLLM would spoil.
        """
        options = ProposerOptions.read(vllm_config.additional_config)
        model = vllm_config.model_config
        if getattr(model, "is_hybrid", False) or getattr(model, "has_inner_state", False):
            raise InputError(_STATEFUL.format(model.model))
        tokenizer = load_tokenizer(str(model.tokenizer))
        self.options, self.tokenizer = options, tokenizer
        self.watch = Watch([folder / FILE for folder in options.folders()])
        sizes = Sizes(
            vllm_config.speculative_config.num_speculative_tokens,
            model.max_model_len,
            2 * vllm_config.scheduler_config.max_num_seqs,
            len(tokenizer.vocabulary()),
        )
        policy = ChainPolicy(CostModel.from_option(options.cost)) if options.guard else None
        factory = chain_factory(options, tokenizer)
        threads = min(options.threads, _cores())
        self.proposer = ChainProposer(factory, tokenizer.eos_id, sizes, policy, threads=threads)

    def load_model(self, *_: Any, **__: Any) -> None:  # noqa: ANN401 - vLLM's own
        """Load no model; warn if vLLM samples wrongly with drafts."""
        if not _keeps_temperatures():
            logging.getLogger("vllm.tasc").warning(_WRONG_SAMPLES)

    def propose(
        self,
        sampled_token_ids: Sequence[list[int]],
        num_tokens_no_spec: np.ndarray,
        token_ids_cpu: np.ndarray,
        *_: Any,  # noqa: ANN401 - vLLM's own
        **__: Any,  # noqa: ANN401
    ) -> list[list[int]]:
        """Return a chain for each row, as in ``ChainProposer.propose``."""
        if self.watch.changed():
            self._reload()
        lengths = num_tokens_no_spec[: len(sampled_token_ids)].tolist()
        return self.proposer.propose(sampled_token_ids, lengths, token_ids_cpu)

    def _reload(self) -> None:
        """Use the replaced indexes for new requests, if they are valid."""
        log = logging.getLogger("vllm.tasc")
        try:
            self.proposer.change(chain_factory(self.options, self.tokenizer))
        except TascError as error:
            log.warning("the new index is not used, the old one is: %s", error)
        else:
            log.warning("an index was replaced: new requests draft from it")


def _cores() -> int:
    """Return the number of cores of this thread; an engine may bind it to one."""
    allowed = getattr(os, "sched_getaffinity", None)  # missing on some systems
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def _keeps_temperatures() -> bool:
    """Return whether vLLM verifies drafts at the temperature of the request."""
    try:
        import torch
        from vllm.v1.sample.rejection_sampler import expand_batch_to_tokens
    except ImportError:  # another version of vLLM
        return True
    temperatures, ends = torch.tensor([0.25, 0.75]), torch.tensor([1, 3], dtype=torch.int32)
    expanded: list[float] = expand_batch_to_tokens(temperatures, ends, 3).tolist()
    return expanded == [0.25, 0.75, 0.75]


def chain_factory(options: ProposerOptions, tokenizer: LoadedTokenizer) -> Factory:
    """Return the factory of the requests' drafters.

    Raises:
        InputError: the method needs more than tokens, or does not fit the indexes.
    """
    method = _chains(parse(options.method))
    indexes = [load_index(folder, tokenizer, copy=True) for folder in options.folders()]
    # Without an index, an empty output marks where outputs begin.
    outputs = [np.empty(0, np.int32)]
    if method.name == "suffix" and indexes:
        outputs = [output for index in indexes for output in indexed_outputs(index)]
    constraint = read_constraint(options.schema, options.grammar, options.regex)
    grammar = None if constraint is None else Grammar(constraint, tokenizer, (tokenizer.eos_id,))
    resources = Resources(outputs, tokenizer.eos_id, indexes=indexes, grammar=grammar)
    return method.prepare(resources)


def _chains(method: Method) -> Method:
    """Return ``method`` with one child per node: vLLM verifies chains."""
    if method.name in ("ar", "ngrammys") or not method.entry.simulates:
        raise InputError(
            f"method {method.label!r} needs a model, or drafts nothing: choose another method"
        )
    wide = any(field.name == "width" for field in fields(method.options))
    return replace(method, options=replace(method.options, width=1)) if wide else method
