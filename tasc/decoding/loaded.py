"""Models that are ready to decode: ``tasc bench`` measures them, and ``tasc.load`` returns them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from tasc.decoding.core.processors import Processor
from tasc.decoding.core.resources import end_ids
from tasc.decoding.core.settings import processors_of, settings_of
from tasc.errors import InputError
from tasc.models.folder.generation import GenerationSettings
from tasc.models.load import DecodingDtype, Device, load_to_decode
from tasc.models.target import Target
from tasc.models.targets.borrowed import target_from_model
from tasc.models.targets.fastest import Graphs, target_for
from tasc.options.references import resolve_model
from tasc.tokenizer.chat import source_of
from tasc.tokenizer.files import CONFIGS
from tasc.tokenizer.loaded import LoadedTokenizer, load_tokenizer
from tasc.tokenizer.output_text import OutputText

Kernels = Literal["auto", "torch", "invariant"]


@dataclass(frozen=True)
class Loaded:
    """A model ready to decode: its target, its tokenizer, and the rules of its outputs."""

    label: str
    target: Target
    tokenizer: LoadedTokenizer
    end_ids: tuple[int, ...]
    # of its generation_config.json
    settings: GenerationSettings = field(default_factory=GenerationSettings)

    @cached_property
    def text(self) -> OutputText:
        """Turns the ids of an output into its text."""
        return OutputText(self.tokenizer.decode, frozenset(self.end_ids))

    def processors(
        self, prompt: np.ndarray, max_new_tokens: int, own: Sequence[Processor] = ()
    ) -> Sequence[Processor]:
        """Return the logits processors of an output after ``prompt`` (L,).

        ``own`` ones come last, and replace others of the same class.
        """
        model = self.target.model
        return processors_of(self.settings, model, prompt, max_new_tokens, self.end_ids, own)

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Return the ids (L_i,) int32 of each text, without special tokens around it."""
        return self.tokenizer.encode(texts).split()


def load_ready(
    reference: str,
    dtype: DecodingDtype,
    device: Device,
    *,
    end: str | None = None,
    graphs: Graphs = "auto",
    kernels: Kernels = "auto",
    compiled: bool = False,
) -> Loaded:
    """Load ``PATH`` or ``LABEL=PATH``, pack its weights, and choose the fastest way to run it.

    ``end`` is the token that ends outputs, if not the tokenizer's own. ``kernels``: "auto" packs
    linear layers on a CPU, except for a ``compiled`` model. Raises what ``load_to_decode``,
    ``load_tokenizer`` and ``target_for`` raise.
    """
    label, path = resolve_model(reference)
    tokenizer = load_tokenizer(path).ending(end)  # first: finds soonest that nothing is there
    packed = kernels == "auto" and not compiled
    model = load_to_decode(path, dtype, device, tokenizer, packed=packed)
    invariant = kernels == "invariant"
    target = target_for(model, graphs=graphs, compiled=compiled, invariant=invariant)
    return Loaded(label, target, tokenizer, end_ids(model, tokenizer.eos_id), settings_of(model))


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model from ``tasc.load``, for ``tasc.generate`` and ``tasc.choose``.

    Not thread-safe: one call at a time.

    Attributes:
        tokenizer: its tokenizer, in the form of transformers, with the chat template.
    """

    ready: Loaded
    tokenizer: PreTrainedTokenizerBase

    @property
    def model(self) -> PreTrainedModel:
        """The model with packed weights, which cannot be trained."""
        return self.ready.target.model


def load(
    model: str | Path, dtype: DecodingDtype = "auto", *, device: Device = "auto"
) -> LoadedModel:
    """Load a model to decode with at the speed that ``tasc bench`` measures.

    On a CPU its weights are packed, so ``tasc.generate`` is faster than with a model that
    transformers loaded. Outputs are the same in float32.

    Args:
        model: a model folder, an artefact with a model, a GGUF file, a packaged model such as
            "smollm2", or a Hub id.
        dtype: of the weights: "float32", "bfloat16", "int8", or "auto": as stored; on a CPU,
            bfloat16 if it multiplies in it, else float32. "int8" is for CPUs and changes some
            outputs of the model: weights and inputs of linear layers are rounded to 8 bits.
        device: "auto" is the first CUDA device, else the CPU.

    Raises InputError for no model or another dtype or device, IntegrityError for damaged weights,
    and UnavailableError for what is missing on this machine.

    Example:
        >>> model = tasc.load("tuned/model", dtype="int8")
        >>> (done,) = tasc.generate(model, model.tokenizer, ["wake me up at nine"])
    """
    for name, value, known in (("dtype", dtype, DecodingDtype), ("device", device, Device)):
        if value not in get_args(known):
            raise InputError(
                f"{name} is {value!r:.100}: pass {' or '.join(map(repr, get_args(known)))}"
            )
    ready = load_ready(str(model), dtype, device)
    return LoadedModel(ready, _for_transformers(ready.tokenizer))


def _for_transformers(tokenizer: LoadedTokenizer) -> PreTrainedTokenizerBase:
    """Return a tokenizer in the form of transformers, with the same end token."""
    tokens = {key: text for name in CONFIGS for key, text in tokenizer.named_tokens(name).items()}
    tokens |= {"eos_token": str(tokenizer.tokenizer.id_to_token(tokenizer.eos_id))}
    converted: PreTrainedTokenizerBase = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.tokenizer, chat_template=source_of(tokenizer), **tokens
    )
    return converted


def plain_model(model: PreTrainedModel | LoadedModel) -> PreTrainedModel:
    """Return the model of transformers behind either."""
    return model.model if isinstance(model, LoadedModel) else model


@contextmanager
def target_of(model: PreTrainedModel | LoadedModel, graphs: Graphs) -> Iterator[Target]:
    """Use ``model`` as a target; a model of transformers is restored afterwards.

    ``graphs`` is as in ``target_for``. Raises InputError for "auto" with a loaded model.
    """
    if not isinstance(model, LoadedModel):
        with target_from_model(model, graphs) as target:
            yield target
        return
    if graphs != "off":
        raise InputError("a model of tasc.load uses CUDA graphs where there is CUDA: remove graphs")
    yield model.ready.target
