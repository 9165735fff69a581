"""transformers' own logits processors for the settings of a model's generation_config.json."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import torch
from transformers import (
    GenerationConfig,
    LogitsProcessorList,
    PreTrainedModel,
    SequenceBiasLogitsProcessor,
)

from tasc.data.foreign import one_line
from tasc.decoding.core.processors import Processor
from tasc.errors import InputError
from tasc.models.folder.files import GENERATION
from tasc.models.folder.generation import GenerationSettings, described
from tasc.models.folder.quiet import quiet


def settings_of(model: PreTrainedModel, **changes: Any) -> GenerationSettings:  # noqa: ANN401
    """Return the settings of a model, replaced by ``changes``."""
    config = model.generation_config
    return GenerationSettings.of((config.to_dict() if config else {}) | changes)


def greedy_config(
    settings: GenerationSettings, max_new_tokens: int, ends: Collection[int]
) -> GenerationConfig:
    """Return the configuration with which ``generate`` decodes greedily as this package does."""
    return GenerationConfig(
        **settings.applied,
        do_sample=False,
        max_new_tokens=max_new_tokens,
        eos_token_id=list(ends) or None,
        pad_token_id=next(iter(ends), 0),
    )


def processors_of(
    settings: GenerationSettings,
    model: PreTrainedModel,
    prompt: np.ndarray,
    max_new_tokens: int,
    ends: Collection[int],
    own: Sequence[Processor] = (),
) -> Sequence[Processor]:
    """Return the processors of an output after ``prompt`` (L,), with the caller's ``own`` ones.

    ``generate`` itself makes them, orders them and hands them to a decoding method, which returns
    them here. An empty prompt has no others, as decoding refuses it.

    Raises InputError for a setting that transformers refuses.
    """
    if not settings.applied or not len(prompt):
        return own
    ids = torch.from_numpy(prompt.astype(np.int64))[None].to(model.device)
    config, before = greedy_config(settings, max_new_tokens, ends), model.generation_config
    config.use_cache = False  # no forward follows
    generate: Any = model.generate
    model.generation_config = GenerationConfig()
    try:
        with quiet():
            processors: LogitsProcessorList = generate(
                ids,
                attention_mask=torch.ones_like(ids),
                generation_config=config,
                logits_processor=LogitsProcessorList(own),
                custom_generate=_given_processors,
            )
            _check_ids(processors, ids, model)
    except (ValueError, TypeError, LookupError, RuntimeError) as error:
        raise InputError(
            f"transformers refuses {described(settings.applied)} ({one_line(error):.200}): correct "
            f"{GENERATION} or the arguments"
        ) from error
    finally:
        model.generation_config = before
    return list(processors)


def _check_ids(processors: LogitsProcessorList, ids: torch.Tensor, model: PreTrainedModel) -> None:
    """Raise ValueError for banned or biased tokens that the model lacks.

    transformers checks them in the first call of the processor, amid decoding.
    """
    size = int(model.config.get_text_config().vocab_size)
    for processor in processors:
        if isinstance(processor, SequenceBiasLogitsProcessor):
            processor(ids, torch.zeros((1, size), device=ids.device))
            processor.prepared_bias_variables = False


def _given_processors(
    _model: PreTrainedModel,
    _input_ids: torch.Tensor,
    logits_processor: LogitsProcessorList,
    **_: Any,  # noqa: ANN401
) -> LogitsProcessorList:
    return logits_processor
