"""Build drafters with their own vocabulary from a model, a tokenizer, or bytes."""

from collections.abc import Callable
from functools import partial

import numpy as np

from tasc.decoding.core.protocols import Factory
from tasc.decoding.core.resources import DraftSource, Resources
from tasc.decoding.drafters.heads.draft_vocab.frequent import corpus_counts, pruned, token_counts
from tasc.decoding.drafters.hetero.neural import NeuralDraftModel
from tasc.decoding.drafters.hetero.ngram import NgramDraftModel, NgramModel
from tasc.decoding.drafters.hetero.options import HeteroOptions, SlrsOptions
from tasc.decoding.drafters.hetero.pair import DraftModel, Pair
from tasc.decoding.drafters.hetero.slem import Slem
from tasc.decoding.drafters.hetero.slrs import Slrs
from tasc.decoding.drafters.hetero.token_level import TokenLevel
from tasc.errors import InputError
from tasc.models.folder.fetch import local_folder
from tasc.models.load import Device, Dtype, load_model
from tasc.models.proof import prove
from tasc.models.target import Target
from tasc.tokenizer.alignment import Bytes, Encoder, Encoding
from tasc.tokenizer.loaded import load_tokenizer


def load_draft(path: str, dtype: Dtype = "float32", device: Device = "cpu") -> DraftSource:
    """Load a draft model from a folder or the Hub, or only a tokenizer from a folder without one.

    Raises InputError and what ``load_model`` raises.
    """
    tokenizer = load_tokenizer(path)
    folder = local_folder(path)
    if folder.exists() and not (folder / "config.json").is_file():
        return DraftSource(tokenizer)
    model = load_model(path, dtype=dtype, device=device, tokenizer=tokenizer)
    return DraftSource(tokenizer, model)


def slem(resources: Resources, options: HeteroOptions) -> Factory:
    """Prepare SLEM."""
    return partial(Slem, pair_of(resources, options), options)


def slrs(resources: Resources, options: SlrsOptions) -> Factory:
    """Prepare SLRS."""
    return partial(Slrs, pair_of(resources, options), options)


def tli(resources: Resources, options: HeteroOptions) -> Factory:
    """Prepare TLI, which draws from the intersection of the vocabularies."""
    pair = pair_of(resources, options)
    return partial(TokenLevel, pair, options, pair.to_target, normalise=True)


def union(resources: Resources, options: HeteroOptions) -> Factory:
    """Prepare drafting over the union of both vocabularies."""
    pair = pair_of(resources, options)
    return partial(TokenLevel, pair, options, pair.to_target, normalise=False)


def standard(resources: Resources, options: HeteroOptions) -> Factory:
    """Prepare standard speculative decoding. Raises InputError for two different vocabularies."""
    pair = pair_of(resources, options)
    a, b = pair.target.strings, pair.draft.strings
    if a != b or pair.target_end not in pair.draft_ends:
        raise InputError(
            f"standard speculative decoding needs one vocabulary, but the target has {len(a)} "
            f"tokens and the drafter {len(b)}: use tli, slem or slrs"
        )
    return partial(TokenLevel, pair, options, pair.same_ids, normalise=False)


def pair_of(resources: Resources, options: HeteroOptions) -> Pair:
    """Return the pair of vocabularies of ``resources``."""
    if resources.tokenizer is None or resources.target is None:
        raise InputError(
            "drafting in another vocabulary needs the target's model and tokenizer: pass both"
        )
    target = Encoder(resources.tokenizer)
    size = int(resources.target.model.config.get_text_config().vocab_size)
    draft, ends, draft_model, width = _drafter(resources, target, options)
    return Pair(
        target,
        draft,
        resources.end,
        list(ends),
        (size, width),
        draft_model,
        resources.sampling,
    )


def _drafter(
    resources: Resources, target: Encoder, options: HeteroOptions
) -> tuple[Encoding, tuple[int, ...], Callable[[], DraftModel], int]:
    """Return the vocabulary, its end tokens, a maker of draft models, and the number of logits."""
    source, most = resources.draft, options.size
    if source is not None and source.model is not None:
        model, draft_encoder = source.model, Encoder(source.tokenizer)
        width = int(model.config.get_text_config().vocab_size)
        if most:
            if draft_encoder.strings == target.strings:
                counts = token_counts(resources, width)
            else:
                outputs = _outputs(resources, target, draft_encoder)
                counts = corpus_counts(outputs, source.ends[0], width)
            model = pruned(model, counts, most)
        prove(Target(model))
        return draft_encoder, source.ends, lambda: NeuralDraftModel(Target(model)), width
    if most:
        raise InputError("size prunes a draft model's LM head: name a model with --draft")
    encoder: Encoding = Bytes() if source is None else Encoder(source.tokenizer)
    ends = (Bytes.end,) if source is None else source.ends
    width = len(encoder.strings)
    table = NgramModel(_outputs(resources, target, encoder), width, options.n, ends[0])
    return encoder, ends, lambda: NgramDraftModel(table), width


def _outputs(resources: Resources, target: Encoder, drafter: Encoding) -> list[np.ndarray]:
    """Return the corpus's outputs as the drafter's tokens, each (T_i,) int64."""
    strings = [target.string_of(o.tolist(), first=True) for o in resources.outputs]
    return [np.array(drafter.encode(s)[0], np.int64) for s in strings]
