"""The keyword arguments of ``tasc.generate``, and the settings that follow from them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tasc.decoding.core.processors import Processor
from tasc.decoding.core.sampling import Sampling
from tasc.decoding.core.settings import settings_of
from tasc.decoding.decode import TokenCallback
from tasc.errors import InputError
from tasc.models.folder.generation import APPLIED, IGNORED, SAMPLING, GenerationSettings
from tasc.models.targets.fastest import Graphs

_REMEDIES = {"max_length": "max_new_tokens", "stop_strings": "stop"}


class GenerationKeywords(TypedDict, total=False):
    """Settings of transformers' GenerationConfig that change logits.

    Each replaces the value in the model's generation_config.json, which applies by default.
    """

    repetition_penalty: float | None
    no_repeat_ngram_size: int | None
    encoder_repetition_penalty: float | None
    encoder_no_repeat_ngram_size: int | None
    bad_words_ids: list[list[int]] | None
    sequence_bias: list[Any] | dict[tuple[int, ...], float] | None
    suppress_tokens: list[int] | None
    begin_suppress_tokens: list[int] | None
    forced_bos_token_id: int | None
    forced_eos_token_id: int | list[int] | None
    min_length: int | None
    min_new_tokens: int | None
    exponential_decay_length_penalty: tuple[int, float] | None
    remove_invalid_values: bool | None
    renormalize_logits: bool | None


class GenerateOptions(GenerationKeywords, total=False):
    """Keyword arguments of ``generate``, besides those of GenerationKeywords.

    Attributes:
        max_new_tokens: maximum number of tokens per completion.
        sampling: how to sample; None is greedy. Each prompt has its own random numbers.
        verify: the verifier for sampling: "sampled" for any drafter, where the output depends only
            on the seed; "rejection" and "multi-branch" for drafters with probabilities.
        stop: strings that end a completion, as ``stop_strings`` in transformers.
        processors: logits processors of transformers, applied before verification and after those
            of the model's settings, of which they replace the ones of the same class.
        on_tokens: function called with the tokens (k,) int32 of each step once they are committed.
            A batch needs one function per prompt.
        batch_size: number of prompts decoded at a time. Outputs do not depend on it, except for
            rounding. Processors are shared, so in a batch they must be stateless.
        graphs: "auto" captures steps in CUDA graphs if the model is on a CUDA device. The first
            step of each shape takes longer, so it pays for many prompts.
        draft_model: draft model of slem, tli, slrs, union and standard; without it they draft with
            n-grams of the corpus' bytes, or of its tokens if there is a ``draft_tokenizer``.
        draft_tokenizer: the draft model's tokenizer.
        draft_head: folder of a trained head, for "mix", "eagle" and the other head methods.
        token_counts: folder of ``tasc analyze``; fr-spec and microspec use its counts.
        schema: JSON Schema, as a file or a dict, that every completion satisfies.
        grammar: file of a grammar in Lark that every completion satisfies.
        regex: regular expression that every completion matches.
    """

    max_new_tokens: int
    sampling: Sampling | None
    verify: str
    stop: Sequence[str]
    processors: Sequence[Processor]
    on_tokens: TokenCallback | Sequence[TokenCallback] | None
    batch_size: int
    graphs: Graphs
    draft_model: PreTrainedModel | None
    draft_tokenizer: PreTrainedTokenizerBase | None
    draft_head: Path | str | None
    token_counts: Path | str | None
    schema: Path | str | dict[str, Any] | None
    grammar: Path | str | None
    regex: str | None


_OWN = GenerateOptions.__annotations__.keys() - GenerationKeywords.__annotations__.keys()


def call_settings(model: PreTrainedModel, options: GenerateOptions) -> GenerationSettings:
    """Return the model's settings, replaced by the ones in ``options``.

    Values without an effect are accepted. Raises InputError for a setting that ``generate`` does
    not apply, and TypeError for an unknown argument.
    """
    keywords: dict[str, Any] = {k: v for k, v in options.items() if k not in _OWN}
    if unknown := keywords.keys() - APPLIED.keys() - IGNORED.keys():
        raise TypeError(f"generate() got an unexpected keyword argument {min(unknown)!r}")
    for name, value in GenerationSettings.of(keywords).ignored.items():
        remedy = _REMEDIES.get(name, "sampling=tasc.Sampling(…)" if name in SAMPLING else "")
        advice = f"pass {remedy} instead" if remedy else "leave it out"
        raise InputError(f"tasc.generate does not apply {name}={value!r:.60}: {advice}")
    return settings_of(model, **{name: keywords[name] for name in keywords.keys() & APPLIED.keys()})
