"""``tasc.custom_generate``: the decoding method of ``model.generate(custom_generate=…)``."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.generation import (
    EosTokenCriteria,
    GenerateDecoderOnlyOutput,
    GenerationConfig,
    MaxLengthCriteria,
    StoppingCriteria,
)

from tasc._native import NgramIndex
from tasc.decoding.core.processors import Processor
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.decode import Generation, Request, TokenCallback, generate_all
from tasc.decoding.drafters import Factory, Method, Resources, default_method, parse
from tasc.decoding.library import Known, chosen, policy_of, prepare
from tasc.decoding.policy import Policy
from tasc.errors import InputError
from tasc.models.cache import ARGUMENTS, cache_among
from tasc.models.folder.generation import is_neutral
from tasc.models.target import Target
from tasc.models.targets.borrowed import target_from_model

_INPUTS = {"attention_mask", "position_ids", "cache_position", *ARGUMENTS}  # that are read
_UNSUPPORTED = ("output_scores", "output_logits", "output_attentions", "output_hidden_states")
# Other ways to search that transformers has decoding methods of its own for
_STRATEGIES = ("penalty_alpha", "dola_layers", "num_beam_groups", "constraints", "force_words_ids")


@dataclass(eq=False)
class CustomGenerate:
    """A decoding method for ``model.generate``, made by ``custom_generate``.

    ``generations`` has the sequences of the last call, with their timelines.
    """

    method: Method
    corpus: Known
    tokenizer: PreTrainedTokenizerBase | None
    on_tokens: TokenCallback | None
    draft_head: Path | str | None
    model: PreTrainedModel | None = None  # of the factories
    factories: dict[int, tuple[Factory, Policy]] = field(default_factory=dict)  # by end token
    generations: list[Generation] = field(default_factory=list)

    def __call__(
        self,
        model: PreTrainedModel,
        input_ids: torch.Tensor,
        logits_processor: Sequence[Processor] = (),
        stopping_criteria: Sequence[StoppingCriteria] = (),
        generation_config: GenerationConfig | None = None,
        **model_inputs: Any,  # noqa: ANN401 - inputs of a forward, prepared by generate
    ) -> torch.Tensor | GenerateDecoderOnlyOutput:
        """Continue ``input_ids`` (B, L) int64, one sequence after another.

        Returns (B, L + T) int64, padded on the right, or an output object around it. Raises
        InputError for unsupported arguments of ``generate``.
        """
        config = generation_config or model.generation_config
        _check(config, model, model_inputs)
        ends = self._ends(stopping_criteria)
        known_rules = MaxLengthCriteria, EosTokenCriteria
        criteria = [c for c in stopping_criteria if not isinstance(c, known_rules)]
        mask = model_inputs.get("attention_mask")
        paddings = [0] * len(input_ids) if mask is None else list(map(_left_padding, mask))
        positions = torch.arange(input_ids.shape[1]) - torch.tensor(paddings)[:, None]
        position_ids = model_inputs.get("position_ids")
        if (
            position_ids is not None
            and (position_ids.cpu() != positions)[..., positions >= 0].any()
        ):
            raise InputError("custom_generate reads prompts from position 0: remove position_ids")
        sampling = Sampling(seed=int(torch.randint(2**62, ()))) if config.do_sample else None
        if model is not self.model:
            self.model, self.factories = model, {}
        with target_from_model(model) as target:
            factory, policy = self._prepared(ends, target)
            count = len(input_ids)
            requests = [
                Request(
                    ids[padding:].cpu().numpy().astype(np.int32),
                    factory,
                    chosen("sampled", sampling, i),
                    _Criteria(criteria, ids) if criteria else None,
                    self.on_tokens,
                    [_one_row(p, model, ids[:padding], i, count) for p in logits_processor],
                )
                for i, (ids, padding) in enumerate(zip(input_ids, paddings, strict=True))
            ]
            room = config.max_length - input_ids.shape[1]
            self.generations = generate_all(
                target,
                requests,
                max_new_tokens=room,
                end_ids=ends,
                budget=self.method.budget,
                policy=policy,
            )
        sequences = _joined(input_ids, self.generations, config)
        if config.return_dict_in_generate:
            return GenerateDecoderOnlyOutput(sequences=sequences)
        return sequences

    def _ends(self, stopping_criteria: Sequence[StoppingCriteria]) -> list[int]:
        """Return the end tokens, first the one that ends drafts."""
        first = self.tokenizer and self.tokenizer.eos_token_id
        if isinstance(self.corpus, NgramIndex):
            first = self.corpus.end
        listed = [c.eos_token_id for c in stopping_criteria if isinstance(c, EosTokenCriteria)]
        return sorted((i for e in listed for i in e.flatten().tolist()), key=lambda i: i != first)

    def _prepared(self, ends: Sequence[int], target: Target) -> tuple[Factory, Policy]:
        """Return what all calls with these end tokens share."""
        end = ends[0] if ends else -1
        if end not in self.factories:
            resources = Resources((), end, target=target, draft_head=self.draft_head)
            factory = prepare(self.method, self.corpus, self.tokenizer, resources)
            self.factories[end] = factory, policy_of(self.method, target)
        return self.factories[end]


def custom_generate(
    drafter: str | None = None,
    corpus: Known = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    *,
    on_tokens: TokenCallback | None = None,
    draft_head: Path | str | None = None,
) -> CustomGenerate:
    """Return a reusable method for ``model.generate(**inputs, custom_generate=…)``.

    It follows the arguments of ``generate``: greedy decoding and sampling, logits processors,
    stopping criteria, padded batches and several sequences per prompt. transformers does not pass
    two arguments to custom methods: instead of ``streamer`` pass ``on_tokens`` here, and instead of
    ``stop_strings`` a ``StopStringCriteria`` among the ``stopping_criteria``.

    Args:
        drafter: a method as in ``tasc bench --method``. The default is ``mix`` with a
            ``draft_head``, otherwise ``tasc-spec``.
        corpus: outputs of the task: texts, token ids or an index; see ``tasc.generate``.
        tokenizer: needed for a corpus of texts.
        on_tokens: function called with the tokens (k,) int32 that each step commits.
        draft_head: folder of a trained head, for "mix", "eagle" and the other head methods.
    """
    method = parse(drafter or default_method(head=draft_head is not None))
    return CustomGenerate(method, corpus, tokenizer, on_tokens, draft_head)


class _Criteria:
    """transformers' stopping criteria as a stop rule, checked after every token."""

    def __init__(self, criteria: Sequence[StoppingCriteria], ids: torch.Tensor) -> None:
        self.criteria, self.ids = criteria, ids

    def cut(self, tokens: list[int], new: int) -> int | None:
        all_ids = torch.cat([self.ids, self.ids.new_tensor(tokens)])[None]
        for end in range(len(tokens) - new + 1, len(tokens) + 1):
            ids = all_ids[:, : len(self.ids) + end]
            if any(bool(torch.as_tensor(c(ids, None)).any()) for c in self.criteria):
                return end
        return None


def _one_row(
    processor: Processor, model: PreTrainedModel, padding: torch.Tensor, row: int, rows: int
) -> Processor:
    """Adapt a processor of a batch to its sequence ``row``.

    It receives the padding, which some processors count, and a batch of its original size. Some of
    transformers' own keep a state, so that each sequence needs a copy; it shares the ``model``.
    """
    if rows == 1 and len(padding) == 0:
        return processor
    if type(processor).__module__.startswith("transformers."):
        processor = deepcopy(processor, {id(model): model})

    def process(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        ids = torch.cat([padding[None], ids], dim=1).repeat(rows, 1)
        return processor(ids, scores.repeat(rows, 1))[row : row + 1]

    return process


def _left_padding(mask: torch.Tensor) -> int:
    padding = int((mask == 0).sum())
    if (mask[padding:] == 0).any():
        raise InputError("prompts must be padded on the left: set tokenizer.padding_side = 'left'")
    return padding


def _check(config: GenerationConfig, model: PreTrainedModel, inputs: dict[str, Any]) -> None:
    """Raise InputError for arguments that the loop would silently ignore."""
    if wrong := [n for n in _STRATEGIES if not is_neutral(n, getattr(config, n, None))]:
        raise InputError(f"custom_generate decodes greedily or samples: remove {', '.join(wrong)}")
    if (config.num_beams or 1) > 1:
        raise InputError(
            f"custom_generate has no beam search: set num_beams=1 (num_beams={config.num_beams})"
        )
    if model.config.is_encoder_decoder or inputs.get("inputs_embeds") is not None:
        raise InputError(
            "custom_generate takes no inputs_embeds and no encoder-decoder: give input_ids and a "
            "decoder-only model"
        )
    unread = [n for n, v in inputs.items() if n not in _INPUTS and isinstance(v, torch.Tensor)]
    if unread:
        raise InputError(f"custom_generate does not pass {unread[0]} to the model: remove it")
    cache = cache_among(inputs)
    if cache is not None and cache[1].get_seq_length() > 0:
        raise InputError(f"custom_generate starts from the prompt: remove {cache[0]}")
    unsupported = [name for name in _UNSUPPORTED if getattr(config, name, False)]
    if config.return_dict_in_generate and unsupported:
        raise InputError(f"custom_generate returns only sequences: remove {', '.join(unsupported)}")


def _joined(
    ids: torch.Tensor, generations: Sequence[Generation], config: GenerationConfig
) -> torch.Tensor:
    """Append the outputs to ``ids`` (B, L), padded to the longest."""
    pad = getattr(config, "_pad_token_tensor", None)
    rows = [torch.from_numpy(g.tokens) for g in generations]
    out = pad_sequence(rows, batch_first=True, padding_value=0 if pad is None else int(pad))
    return torch.cat([ids, out.to(ids)], dim=1)
