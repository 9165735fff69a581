"""The fastest way to decode with a model that gives the model's own logits."""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import torch
import transformers
from transformers import PreTrainedModel

from tasc.environment import NEWEST_TRANSFORMERS
from tasc.errors import TascError, UnavailableError
from tasc.models import attention
from tasc.models.packed import DTYPES, is_int8, is_packed, unpack
from tasc.models.proof import WrongCodeError, prove, wrong_code
from tasc.models.stateful import StatefulTarget
from tasc.models.static import StaticTarget
from tasc.models.target import Target

Graphs = Literal["auto", "off"]
_LOGGED: set[str] = set()  # classes of models, in this process
_log = logging.getLogger("tasc")


def target_for(
    model: PreTrainedModel,
    *,
    graphs: Graphs = "auto",
    compiled: bool = False,
    invariant: bool = False,
) -> Target:
    """Return a target for ``model``, with CUDA graphs on CUDA unless ``graphs`` is "off".

    ``compiled`` also passes the forward through torch.compile, on any device, which takes a minute
    per shape. ``invariant`` uses the kernels of ``tasc.models.invariant``. Raises UnavailableError
    where they cannot be used, or if the target's logits differ from the model's own.

    If the fastest way to run the model fails the proof, as with an unknown release of transformers,
    slower ways are tried in this order: without CUDA graphs, layer by layer, by chains, without
    packed layers (which are then unpacked). The first that passes is used, and its loss is logged.
    If none passes, raises the error of the fastest.
    """
    cuda, stateful = model.device.type == "cuda", attention.is_stateful(model)
    if invariant and (stateful or compiled or not cuda or model.dtype not in DTYPES):
        raise UnavailableError(
            "invariant kernels are for models with attention in all layers on CUDA, in float32 or "
            "bfloat16 and not compiled: use --kernels auto, which is invariant on most CPUs"
        )
    captured = graphs == "auto" and cuda
    if (captured or compiled) and not stateful:
        fastest = partial(_static, model, captured, compiled, invariant)
    else:
        fastest = partial(_eager, model, StatefulTarget if stateful else Target, invariant)
    if compiled or invariant:  # explicit options: no other way replaces them
        return fastest()
    try:
        return fastest()
    except WrongCodeError as error:
        refusal = error
    rounds = is_int8(model)
    for loss, slower in _slower_ways(model, stateful, captured):
        try:
            target = slower()
        except WrongCodeError:
            continue
        same = is_int8(model) == rounds
        _log_loss(model, loss, refusal, "the same" if same else "those of unrounded inputs")
        return target
    raise refusal


def _static(model: PreTrainedModel, captured: bool, compiled: bool, invariant: bool) -> Target:
    proved = StaticTarget(model, graphs=False)  # the same steps, not captured
    proved.invariant = invariant
    prove(proved)
    target = StaticTarget(model, graphs=captured, compiled=compiled)
    target.invariant = invariant
    return target


def _eager(
    model: PreTrainedModel, kind: type[Target], invariant: bool = False, *, fused: bool = True
) -> Target:
    try:
        target = kind(model, fused=fused)
    except (TascError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # a model of an unknown release may lack anything
        raise wrong_code(model, "cannot be made a target", error) from error
    target.invariant = invariant
    prove(target)
    return target


def _slower_ways(
    model: PreTrainedModel, stateful: bool, captured: bool
) -> Iterator[tuple[str, Callable[[], Target]]]:
    """Yield the loss of each slower way, and a function that returns its target; fastest first.

    Layers are unpacked when no way with packed ones is left.
    """
    trees = StatefulTarget if stateful else Target
    eager = partial(_eager, model, fused=False)
    if is_packed(model):
        yield "its layers run one by one", partial(eager, trees)
    elif captured:
        yield "its steps run without CUDA graphs", partial(eager, trees)
    if not stateful:
        yield "its drafts are chains", partial(eager, StatefulTarget)
    if unpack(model):
        yield "its layers are not packed", partial(eager, trees)
        if not stateful:
            loss = "its layers are not packed and its drafts are chains"
            yield loss, partial(eager, StatefulTarget)


def _log_loss(model: PreTrainedModel, loss: str, refusal: WrongCodeError, outputs: str) -> None:
    """Log the ``loss`` and its cause, once per class of models, and what ``outputs`` are."""
    kind = type(model).__name__
    if kind in _LOGGED:
        return
    _LOGGED.add(kind)
    reason = str(refusal).removesuffix(": decode it with transformers")
    _log.warning(
        "warning: %s, so %s: outputs are %s, decoding is slower (transformers %s, tested up to %s)",
        *(reason, loss, outputs, transformers.__version__, NEWEST_TRANSFORMERS),
    )
