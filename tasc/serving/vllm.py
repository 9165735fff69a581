"""A drafter for vLLM: ``--speculative-config '{"method": "custom_class", "model": …}'``.

vLLM asks for chains, between its steps, in its own process; this class answers from tokens alone
and changes no output. What it drafts with is told by ``--additional-config``, under ``tasc``.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import Field, ValidationError

from tasc.decoding.drafters import DRAFTERS, Factory, Method, Resources, parse
from tasc.decoding.drafters.ngram.index import FILE, indexed_outputs, load_index
from tasc.errors import InputError, TascError
from tasc.models.cost_model import TOKEN_COST, CostModel
from tasc.options.command import Options
from tasc.options.explain import explain
from tasc.serving.drafts.policy import ChainPolicy
from tasc.serving.drafts.proposer import ChainProposer, Sizes
from tasc.serving.drafts.watch import Watch
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer

KEY = "tasc"  # of additional_config
_WRONG_SAMPLES = (
    "this build of vLLM loses the temperature of a request where there are drafts (vLLM issue "
    "55005): samples are wrong, whatever drafts; ask with temperature 0, or serve without drafts"
)


class ProposerOptions(Options):
    """What vLLM's ``additional_config`` says under ``tasc``."""

    index: str | dict[str, str] = Field(
        default_factory=dict,
        description="Folder that tasc index wrote for the served model's tokenizer; or several, "
        "by names of your own.",
    )
    use: list[str] | None = Field(
        None, description="Names of the indexes to draft from; all of them if left out."
    )
    method: str = Field(
        "tasc-spec",
        description="Method as tasc bench takes it; the default drafts from the indexes, the "
        "prompt, and the outputs of finished requests.",
    )
    guard: bool = Field(True, description="Draft less, or not, while drafts are not accepted.")
    cost: float | dict[int, float] = Field(
        TOKEN_COST,
        description="What a drafted token adds to a step, as a share of a step of one token; or "
        "seconds of a step by its number of tokens.",
    )
    threads: int = Field(
        2,
        ge=1,
        description="Threads that draft where a step takes 0.2 ms or more; no more than the cores "
        "that the engine's process may use.",
    )

    @classmethod
    def read(cls, additional: Mapping[str, Any] | None) -> Self:
        """Take the options from vLLM's ``additional_config``.

        Raises:
            InputError: a key or a value cannot be used.
        """
        try:
            return cls.model_validate((additional or {}).get(KEY, {}))
        except ValidationError as error:
            found = "; ".join(explain(list(error.errors())))
            raise InputError(f"additional_config[{KEY!r}]: {found}") from None

    def folders(self) -> list[Path]:
        """Return the folders of the indexes to use.

        Raises:
            InputError: ``use`` names one that is not there.
        """
        named = {"index": self.index} if isinstance(self.index, str) else self.index
        for name in self.use or ():
            if name not in named:
                raise InputError(
                    f"use: {name!r} is no index; there are: {', '.join(named) or 'none'}"
                )
        return [Path(named[name]).expanduser() for name in (self.use or named)]


class TascProposer:
    """vLLM's proposer of draft tokens (V1, ``custom_class``)."""

    def __init__(self, vllm_config: Any, *_: Any) -> None:  # noqa: ANN401 - vLLM's own
        """Read the indexes that ``vllm_config.additional_config`` names.

        Raises:
            InputError: a setting or an index cannot be used.
        """
        options = ProposerOptions.read(vllm_config.additional_config)
        model = vllm_config.model_config
        tokenizer = load_tokenizer(str(model.tokenizer))
        self.options, self.tokenizer = options, tokenizer
        self.watch = Watch([folder / FILE for folder in options.folders()])
        sizes = Sizes(
            vllm_config.speculative_config.num_speculative_tokens,
            model.max_model_len,
            2 * vllm_config.scheduler_config.max_num_seqs,
        )
        policy = ChainPolicy(CostModel.from_option(options.cost)) if options.guard else None
        factory = chain_factory(options, tokenizer)
        threads = min(options.threads, _cores())
        self.proposer = ChainProposer(factory, tokenizer.eos_id, sizes, policy, threads=threads)

    def load_model(self, *_: Any, **__: Any) -> None:  # noqa: ANN401 - vLLM's own
        """Load nothing, as there is no model; warn where vLLM would sample wrongly with drafts."""
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
        """Return a chain for each row; see ChainProposer.propose."""
        if self.watch.changed():
            self._reload()
        lengths = num_tokens_no_spec[: len(sampled_token_ids)].tolist()
        return self.proposer.propose(sampled_token_ids, lengths, token_ids_cpu)

    def _reload(self) -> None:
        """Begin requests with the indexes that stand there now, unless they cannot be used."""
        log = logging.getLogger("vllm.tasc")
        try:
            self.proposer.change(chain_factory(self.options, self.tokenizer))
        except TascError as error:
            log.warning("the replaced index is not used, the one before it is: %s", error)
        else:
            log.warning("an index was replaced: requests that begin now draft from it")


def _cores() -> int:
    """Return how many cores this thread may use; an engine may have bound it to a single one."""
    allowed = getattr(os, "sched_getaffinity", None)  # not of every system
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def _keeps_temperatures() -> bool:
    """Say whether vLLM verifies drafts at the temperature that a request asks for."""
    try:
        import torch
        from vllm.v1.sample.rejection_sampler import expand_batch_to_tokens
    except ImportError:  # another version, of which nothing is known
        return True
    asked, ends = torch.tensor([0.25, 0.75]), torch.tensor([1, 3], dtype=torch.int32)
    found: list[float] = expand_batch_to_tokens(asked, ends, 3).tolist()
    return found == [0.25, 0.75, 0.75]


def chain_factory(options: ProposerOptions, tokenizer: LoadedTokenizer) -> Factory:
    """Return what makes a drafter of chains for each request.

    Raises:
        InputError: the method needs more than tokens, or does not fit the indexes.
    """
    method = _chains(parse(options.method))
    indexes = [load_index(folder, tokenizer) for folder in options.folders()]
    # Without an index an empty output stands in for it: all that it says is where outputs begin.
    outputs = [np.empty(0, np.int32)]
    if method.name == "suffix" and indexes:
        outputs = [output for index in indexes for output in indexed_outputs(index)]
    return method.prepare(Resources(outputs, tokenizer.eos_id, indexes=indexes))


def _chains(method: Method) -> Method:
    """Return ``method`` with one child a node, which vLLM's chains are."""
    if method.name in ("ar", "ngrammys") or not DRAFTERS[method.name].simulates:
        raise InputError(
            f"method {method.label!r} needs more than tokens, or drafts nothing: choose another"
        )
    if method.adaptive:
        raise InputError(
            f"method {method.label!r}: num_speculative_tokens says how many tokens vLLM verifies; "
            "leave budget=auto out"
        )
    wide = any(field.name == "width" for field in fields(method.options))
    return replace(method, options=replace(method.options, width=1)) if wide else method
