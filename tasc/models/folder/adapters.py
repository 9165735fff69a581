"""PEFT's adapters, in a loaded model and in a folder, and whether drafts can follow them.

Most methods (LoRA, DoRA, IA3, trained rows, …) replace weights, so a tree of drafts is scored like
plain text, and the adapter can be merged. The methods that are refused add positions, read the
whole text first, or choose an adapter for each prompt, which only PEFT's own ``generate`` arranges.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from tasc.errors import InputError, UnavailableError
from tasc.models.folder.files import read_json

ADAPTER = "adapter_config.json"
_REASONS = {
    "ADAPTION_PROMPT": "adds a soft prompt to each attention layer",
    "POLY": "needs the task of each prompt",
    "SHADOW": "runs a second model beside the layers",
    "XLORA": "reads the whole text to weigh its adapters",
}
_NEVER_MERGED = ("CPT", *_REASONS)


def check_adapters(model: PreTrainedModel) -> None:
    """Raise UnavailableError for a soft prompt, an activated LoRA, or a method of ``_REASONS``.

    Also raises InputError inside of PEFT's ``generate(adapter_names=…)``. Adapters that are not
    active or disabled do not matter.
    """
    if any(_passes(module, "adapter_names") for module in model.modules()):
        raise InputError(
            "adapter_names gives each prompt an adapter of its own: leave it out, and generate "
            "once per adapter, after set_adapter"
        )
    reasons = [(_kind(config), _reason(config)) for _, config in _active(owner_of(model))]
    reasons += [(kind, _REASONS[kind]) for kind in _kinds_of_layers(model) & _REASONS.keys()]
    for kind, reason in reasons:
        if reason:
            raise UnavailableError(
                f"the model's adapter ({kind}) {reason}, which drafts cannot follow: call the "
                "model's own generate, without tasc"
            )


def adapter_kinds(model: PreTrainedModel) -> list[str]:
    """Return the kinds of active adapters, sorted."""
    return sorted(_kind(config) for _, config in _active(owner_of(model)))


def owner_of(model: PreTrainedModel) -> Any:  # noqa: ANN401 - also PEFT's models
    """Return the model whose ``generate`` runs: PEFT passes the inner one to custom methods."""
    return getattr(model.prepare_inputs_for_generation, "__self__", model)


def _active(owner: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    """Yield the names and configurations of the adapters that a forward uses."""
    configs = getattr(owner, "peft_config", None)
    if not isinstance(configs, dict) or getattr(owner, "_adapters_disabled", False):
        return
    layers = [x for x in owner.modules() if isinstance(getattr(x, "disable_adapters", None), bool)]
    if layers:
        names = {name for x in layers if not x.disable_adapters for name in x.active_adapters}
    else:
        active = getattr(owner, "active_adapter", ())
        names = {active} if isinstance(active, str) else set(active)
    yield from ((name, configs[name]) for name in sorted(names & configs.keys()))


def _reason(config: Any) -> str:  # noqa: ANN401
    """Return the reason why drafts cannot follow an adapter; "" if they can."""
    if getattr(config, "is_prompt_learning", False):
        return "puts a soft prompt before each text"
    if getattr(config, "alora_invocation_tokens", None):
        return "is an activated LoRA and acts from its invocation tokens on"
    return _REASONS.get(_kind(config), "")


def _kind(config: Any) -> str:  # noqa: ANN401
    return str(getattr(config.peft_type, "value", config.peft_type))


def _kinds_of_layers(model: PreTrainedModel) -> set[str]:
    """Return the kinds of PEFT's layers in an inner model, which may have no configuration."""
    kinds = set[str]()
    for module in model.modules():
        runs = getattr(module.forward, "__self__", module)  # X-LoRA replaces a layer's forward
        path = type(runs).__module__.split(".")
        is_layer = path[:2] == ["peft", "tuners"] and path[-1] == "layer"
        if is_layer and getattr(runs, "disable_adapters", False) is not True:
            kinds.add(path[2].upper())
    return kinds


def _passes(module: Any, argument: str) -> bool:  # noqa: ANN401
    """Return whether PEFT passes ``argument`` to each forward of a layer."""
    hooks = module._forward_pre_hooks.values()
    return any(isinstance(hook, partial) and argument in hook.keywords for hook in hooks)


def advice(what: str, folder: Path) -> str:
    """Return the remedy for the folder of an adapter: most can be merged into their model."""
    values = read_json(folder / ADAPTER, what)
    kind = values.get("peft_type")
    if values.get("alora_invocation_tokens"):
        return (
            "it is an activated LoRA, which cannot be merged into weights: use a model without it"
        )
    if "num_virtual_tokens" in values or kind in _NEVER_MERGED:
        return (
            f"it is of the kind {kind!r:.60}, which cannot be merged into weights: use a model "
            "without it"
        )
    return (
        "run tasc finetune with --merge, and give the folder model/ that it writes, or merge the "
        "adapter with PEFT's merge_and_unload and save the result"
    )
