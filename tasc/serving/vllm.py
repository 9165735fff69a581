"""A drafter for vLLM: ``--speculative-config '{"method": "custom_class", "model": …}'``.

vLLM requests chains between its steps, in its own process. This class drafts them from tokens alone
and changes no output. Its options are in ``--additional-config``, under ``tasc``.
"""

import logging
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, ValidationError

from tasc.decoding.core.grammar import Grammar
from tasc.decoding.drafters import Factory, Method, Resources, parse
from tasc.decoding.drafters.ngram.index import indexed_outputs, load_index
from tasc.decoding.policy import Policy
from tasc.errors import InputError
from tasc.models.cost_model import TOKEN_COST, CostModel
from tasc.options.constraint import read_constraint
from tasc.options.fields import explain
from tasc.options.task import Options
from tasc.serving.drafts.proposer import ChainProposer, Sizes
from tasc.serving.drafts.state import State, memory_of, read_state, teach
from tasc.serving.drafts.tasks import Tasks
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer

KEY = "tasc"  # of additional_config
_log = logging.getLogger("vllm.tasc")
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
    tasks: str | None = Field(
        None,
        description="Folder with an index folder per further task, read again when it changes. "
        "Requests of the task sql have the text of sql.txt, by default [sql], near the beginning "
        "of their prompts; other requests draft from the index.",
    )
    share: bool = Field(
        False,
        description="Map index files into memory that all processes share. Replace such files by "
        "renaming only: a process ends if its file is cut.",
    )
    state: str | None = Field(
        None,
        description="File for the outputs of finished requests, so that a restarted engine drafts "
        "from them. One file per engine; it contains private data.",
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
    cost: float | dict[int, float] | Literal["measured"] = Field(
        TOKEN_COST,
        description="Cost of a drafted token, as a share of a step of one token; seconds of a step "
        "by its number of tokens; or measured: the default, raised by the times of the engine's "
        "steps.",
    )
    threads: int = Field(
        2,
        ge=1,
        description="Number of threads for drafting steps of 0.2 ms or more; at most the cores of "
        "the engine's process.",
    )

    @classmethod
    def read(cls, additional: Mapping[str, Any] | None) -> Self:
        """Read vLLM's ``additional_config``. Raises InputError for a wrong key or value."""
        try:
            return cls.model_validate((additional or {}).get(KEY, {}))
        except ValidationError as error:
            problems = "; ".join(explain(list(error.errors())))
            raise InputError(f"additional_config[{KEY!r}]: {problems}") from None

    def folders(self) -> list[Path]:
        """Return the folders of the indexes to use. Raises InputError for an unknown name."""
        named = {"index": self.index} if isinstance(self.index, str) else self.index
        for name in self.use or ():
            if name not in named:
                raise InputError(
                    f"use: no index is called {name!r}; indexes: {', '.join(named) or 'none'}"
                )
        return [Path(named[name]).expanduser() for name in (self.use or named)]


class TascProposer:
    """A proposer of draft tokens for vLLM (V1, ``custom_class``)."""

    def __init__(self, vllm_config: Any, *_: Any) -> None:  # noqa: ANN401 - vLLM's own
        """Read the indexes in ``vllm_config.additional_config``.

        Raises InputError for a wrong option or index, or a model whose state vLLM would spoil.
        """
        options = ProposerOptions.read(vllm_config.additional_config)
        model = vllm_config.model_config
        if getattr(model, "is_hybrid", False) or getattr(model, "has_inner_state", False):
            raise InputError(_STATEFUL.format(model.model))
        tokenizer = load_tokenizer(str(model.tokenizer))
        folder = None if options.tasks is None else Path(options.tasks).expanduser()
        self.options, self.tokenizer = options, tokenizer
        make = partial(chain_factory, options, tokenizer)
        self.tasks = Tasks(make, tokenizer, options.folders(), folder)
        self.proposer = self._proposer(vllm_config)
        first = getattr(getattr(vllm_config, "parallel_config", None), "rank", 0) == 0
        self.state = self._state(Path(options.state)) if options.state and first else None
        runner = "V2" if getattr(vllm_config, "use_v2_model_runner", False) else "V1"
        version = getattr(sys.modules.get("vllm"), "__version__", "unknown")
        _log.info("drafting in Model Runner %s of vLLM %s, through custom_class", runner, version)

    def _proposer(self, vllm_config: Any) -> ChainProposer:  # noqa: ANN401
        options = self.options
        factories = self.tasks.factories
        sizes = Sizes(
            tokens=vllm_config.speculative_config.num_speculative_tokens,
            positions=vllm_config.model_config.max_model_len,
            sequences=2 * vllm_config.scheduler_config.max_num_seqs,
            vocabulary=len(self.tokenizer.vocabulary()),
        )
        cost = CostModel.from_option(TOKEN_COST if options.cost == "measured" else options.cost)
        clock = time.perf_counter if options.cost == "measured" else None
        policy = Policy(cost, assumed=True) if options.guard else None
        threads = min(options.threads, _cores())
        proposer = ChainProposer(
            factories[""], self.tokenizer.eos_id, sizes, policy, threads=threads, clock=clock
        )
        proposer.use(factories)
        proposer.route = self.tasks.route
        return proposer

    def load_model(self, *_: Any, **__: Any) -> None:  # noqa: ANN401 - vLLM's own
        """Load no model; warn if vLLM samples wrongly with drafts."""
        if not _keeps_temperatures():
            _log.warning(_WRONG_SAMPLES)

    def propose(
        self,
        sampled_token_ids: Sequence[list[int]],
        num_tokens_no_spec: np.ndarray,
        token_ids_cpu: np.ndarray,
        *_: Any,  # noqa: ANN401 - vLLM's own
        **__: Any,  # noqa: ANN401
    ) -> list[list[int]]:
        """Return a chain for each row, as in ``ChainProposer.propose``."""
        if self.tasks.poll():
            self.proposer.use(self.tasks.factories)
        lengths = num_tokens_no_spec[: len(sampled_token_ids)].tolist()
        chains = self.proposer.propose(sampled_token_ids, lengths, token_ids_cpu)
        if self.state is not None:
            self.state.record(self.proposer.ended)
        return chains

    def _state(self, file: Path) -> State:
        """Learn from ``file`` and write to it from now on; InputError if that is impossible."""
        file = file.expanduser()
        factories = self.tasks.factories
        if memory_of(factories[""]) is None:
            raise InputError(f"state: {self.options.method} learns nothing: leave state out")
        for name, outputs in read_state(file, self.tokenizer).items():
            if name in factories:
                teach(factories[name], outputs)
                _log.info("task %r: learnt %d outputs from %s", name, len(outputs), file)
        return State(file, self.tokenizer, self._learnt)

    def _learnt(self) -> dict[str, list[np.ndarray]]:
        memories = {name: memory_of(one) for name, one in self.tasks.factories.items()}
        return {name: list(memory.outputs) for name, memory in memories.items() if memory}


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


def chain_factory(
    options: ProposerOptions, tokenizer: LoadedTokenizer, folders: Sequence[Path]
) -> Factory:
    """Return the factory of the drafters of requests that draft from the indexes in ``folders``.

    Raises InputError if the method needs more than tokens, or does not fit the indexes.
    """
    method = _chains(parse(options.method))
    indexes = [load_index(folder, tokenizer, copy=not options.share) for folder in folders]
    for folder, index in zip(folders, indexes, strict=True):
        kind = "shared" if options.share else "private"
        _log.info("index %s: %.1f MB of %s memory", folder, index.block.nbytes / 1e6, kind)
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
    wide = hasattr(method.options, "width")
    return replace(method, options=replace(method.options, width=1)) if wide else method
