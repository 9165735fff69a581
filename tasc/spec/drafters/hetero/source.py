"""Where a drafter with its own vocabulary comes from: a model, a tokenizer, or bytes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from transformers import PreTrainedModel

from tasc.data.alignment import Bytes, Encoder, Encoding
from tasc.data.tokenizer import LoadedTokenizer, load_tokenizer
from tasc.errors import InputError
from tasc.models.load import Device, Dtype, load_model
from tasc.models.proof import prove
from tasc.models.target import Target
from tasc.spec.drafters.frequent import corpus_counts, pruned, token_counts
from tasc.spec.drafters.hetero.ngram import NgramModel, NgramSpeaker
from tasc.spec.drafters.hetero.pair import Pair
from tasc.spec.drafters.hetero.slem import Slem
from tasc.spec.drafters.hetero.slrs import Slrs
from tasc.spec.drafters.hetero.speaker import NeuralSpeaker, Speaker
from tasc.spec.drafters.hetero.token_level import standard, tli, union
from tasc.spec.protocols import Drafter

if TYPE_CHECKING:
    from tasc.spec.drafters import Resources

ALGORITHMS: dict[str, Callable[[Pair, Any], Drafter]] = {
    "slem": Slem,
    "slrs": Slrs,
    "tli": tli,
    "union": union,
    "standard": standard,
}


@dataclass(frozen=True)
class DraftSource:
    """What drafts: a model with its tokenizer, or an n-gram model over a tokenizer's tokens."""

    tokenizer: LoadedTokenizer
    model: PreTrainedModel | None = None

    @property
    def ends(self) -> list[int]:
        """The tokens that end a text."""
        config = None if self.model is None else self.model.generation_config
        given = getattr(config, "eos_token_id", None)
        listed = given if isinstance(given, list) else [given]
        known = [*listed, self.tokenizer.eos_id]
        return list(dict.fromkeys(int(i) for i in known if i is not None))


def load_draft(path: str, dtype: Dtype = "float32", device: Device = "cpu") -> DraftSource:
    """Load what drafts from a folder or the Hub: a model, or a tokenizer where there is no model.

    Raises InputError and what ``load_model`` raises.
    """
    tokenizer = load_tokenizer(path)
    place = Path(path).expanduser()
    if place.exists() and not (place / "config.json").is_file():
        return DraftSource(tokenizer)
    return DraftSource(tokenizer, load_model(path, dtype=dtype, device=device))


def prepare(name: str, resources: "Resources", options: Any) -> Callable[[], Drafter]:  # noqa: ANN401
    """Build what drafters of the algorithm called ``name`` share; see Method.prepare."""
    pair = pair_of(resources, options.n, options.size)
    algorithm = ALGORITHMS[name]
    if name == "standard":
        algorithm(pair, options)  # refuses two vocabularies now, not at the first sequence
    return lambda: algorithm(pair, options)


def pair_of(resources: "Resources", n: int, most: int = 0) -> Pair:
    """Return the pair of vocabularies that ``resources`` describe.

    An n-gram model has order ``n``. Of a network's tokens the ``most`` frequent ones are drafted
    alone, all for 0.
    """
    if resources.tokenizer is None or resources.target is None:
        raise InputError(
            "drafting in another vocabulary needs the target's model and tokenizer: pass both"
        )
    target = Encoder(resources.tokenizer)
    size = int(resources.target.model.config.get_text_config().vocab_size)
    draft, ends, speaker, width = _drafter(resources, target, n, most)
    return Pair(target, draft, (resources.end, ends), (size, width), speaker, resources.sampling)


def _drafter(
    resources: "Resources", target: Encoder, n: int, most: int
) -> tuple[Encoding, list[int], Callable[[], Speaker], int]:
    """Return the drafter's vocabulary, its end tokens, its speakers, and the size of its rows."""
    source = resources.draft
    if source is not None and source.model is not None:
        model, known = source.model, Encoder(source.tokenizer)
        width = int(model.config.get_text_config().vocab_size)
        if most:
            if known.strings == target.strings:
                counts = token_counts(resources, width)
            else:
                counts = corpus_counts(_said(resources, target, known), source.ends[0], width)
            model = pruned(model, counts, most)
        prove(Target(model))
        return known, source.ends, lambda: NeuralSpeaker(Target(model)), width
    if most:
        raise InputError("size prunes a draft model's LM head: name a model to draft with")
    encoder: Encoding = Bytes() if source is None else Encoder(source.tokenizer)
    ends = [Bytes.end] if source is None else source.ends
    width = len(encoder.strings)
    table = NgramModel(_said(resources, target, encoder), width, n, ends[0])
    return encoder, ends, lambda: NgramSpeaker(table), width


def _said(resources: "Resources", target: Encoder, drafter: Encoding) -> list[np.ndarray]:
    """Return the corpus' outputs as the drafter's tokens, each (T_i,) int64."""
    strings = [target.string_of(o.tolist(), first=True) for o in resources.outputs]
    return [np.array(drafter.encode(s)[0], np.int64) for s in strings]
