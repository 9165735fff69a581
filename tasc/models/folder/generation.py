"""The settings of generation_config.json, and the ones that decoding applies.

transformers' ``generate`` and inference engines read them. Settings that change logits by the
tokens before them apply everywhere, as in transformers. How to sample, when to cut an output and
how many beams to search is decided by the options of a call, never by the model's folder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_NOTHING: tuple[Any, ...] = (None, [], {}, ())
# setting -> values that have no effect, besides None and empty ones
APPLIED: dict[str, tuple[Any, ...]] = {
    "repetition_penalty": (1,),
    "no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1,),  # of the prompt, for models without an encoder
    "encoder_no_repeat_ngram_size": (0,),
    "bad_words_ids": (),
    "sequence_bias": (),
    "suppress_tokens": (),
    "begin_suppress_tokens": (),
    "forced_bos_token_id": (),
    "forced_eos_token_id": (),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "exponential_decay_length_penalty": (),
    "remove_invalid_values": (False,),
    "renormalize_logits": (False,),
}
SAMPLING: dict[str, tuple[Any, ...]] = {
    "do_sample": (False,),
    "temperature": (1,),
    "top_k": (0, 50),  # 50 is transformers' default, without effect on greedy decoding
    "top_p": (1,),
    "min_p": (0,),
    "top_h": (),
    "typical_p": (1,),
    "epsilon_cutoff": (0,),
    "eta_cutoff": (0,),
}
OTHERS: dict[str, tuple[Any, ...]] = {
    "max_length": (20,),  # transformers' default
    "max_new_tokens": (),
    "max_time": (),
    "stop_strings": (),
    "num_beams": (1,),
    "num_beam_groups": (1,),
    "num_return_sequences": (1,),
    "diversity_penalty": (0,),
    "length_penalty": (1,),
    "early_stopping": (False,),
    "penalty_alpha": (0,),
    "dola_layers": (),
    "constraints": (),
    "force_words_ids": (),
    "guidance_scale": (1,),
    "token_healing": (False,),
    "watermarking_config": (),
}
IGNORED = SAMPLING | OTHERS


def is_neutral(name: str, value: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Return whether the setting ``name`` has no effect with this value."""
    return value in _NOTHING or value in (APPLIED | IGNORED)[name]


def described(settings: Mapping[str, Any]) -> str:
    """Return settings and their values in one line, such as "top_k=20, top_p=0.8"."""
    return ", ".join(f"{name}={value!s:.60}" for name, value in settings.items())


@dataclass(frozen=True)
class GenerationSettings:
    """The settings of one model that have an effect, by whether decoding applies them."""

    applied: dict[str, Any] = field(default_factory=dict)
    ignored: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, stated: Mapping[str, Any]) -> "GenerationSettings":
        """Sort the settings of a generation_config.json or a call."""

        def effective(names: Mapping[str, Any]) -> dict[str, Any]:
            listed = {name: stated[name] for name in names if name in stated}
            return {name: value for name, value in listed.items() if not is_neutral(name, value)}

        return cls(effective(APPLIED), effective(IGNORED))


def as_applied(stated: Mapping[str, Any], ends: Sequence[int]) -> dict[str, Any]:
    """Return a generation_config.json without ignored settings, with the end tokens ``ends``."""
    dropped = IGNORED.keys() | {"_from_model_config"}
    settings = {key: value for key, value in stated.items() if key not in dropped}
    return settings | {"eos_token_id": list(ends)}
