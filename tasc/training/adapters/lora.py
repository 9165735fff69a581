"""LoRA with trainable embedding rows: attach the adapter, and merge it into plain weights.

Low-rank adapters on a 4-bit base are from Dettmers et al. 2023. Of the rows, "Task-Centric
Acceleration" trains all in App. B.2, and by its parameter count (6 %) the new ones in section 4.2.
"""

from collections.abc import Sequence

import torch
from bitsandbytes.nn import Linear4bit, Linear8bitLt
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import Linear, LoraLayer
from peft.tuners.trainable_tokens import TrainableTokensLayer
from peft.utils.integrations import dequantize_bnb_weight
from peft.utils.transformers_weight_conversion import (
    _MODEL_TO_CONVERSION_PATTERN,
    _MOE_TARGET_MODULE_MAPPING,
)
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from tasc.data.foreign import one_line
from tasc.errors import InputError
from tasc.models.embeddings import output_head, per_layer_table
from tasc.models.folder.quiet import quiet
from tasc.models.folder.tying import is_tied
from tasc.training.adapters.low_rank import ADAPTER, BitDropout, LowRank
from tasc.training.adapters.options import ALL_LINEAR, AdapterOptions
from tasc.training.adapters.rows import Rows

_PREFIX = "base_model.model."
_FUSED = ("dt_proj", "out_proj")  # of Mamba's layers, whose kernels read these weights themselves


def attach(model: PreTrainedModel, rows: Sequence[int], options: AdapterOptions) -> PeftModel:
    """Freeze a model and attach LoRA to its linear layers except the LM head.

    Experts of a mixture are not linear layers in transformers 5. ``rows`` of the embeddings and the
    LM head become trainable too. All trainable parameters are float32, because bfloat16 cannot
    represent an AdamW step.

    Raises InputError for rows of an LM head with a bias, which PEFT ignores, for a target that is
    not a layer, and for a model that PEFT cannot adapt.
    """
    settings = vars(model.config.get_text_config())
    if "altup_coef_clip" in settings:  # Gemma 3n would clamp weights in training, even packed ones
        settings["altup_coef_clip"] = None  # the config itself accepts only a number
    config = LoraConfig(
        r=options.rank,
        lora_alpha=options.alpha,
        lora_dropout=options.dropout,
        target_modules=_chosen_layers(model, options.target_modules),
        trainable_token_indices=_trainable_rows(model, rows),
        task_type="CAUSAL_LM",
    )
    try:
        with quiet():
            adapted = get_peft_model(model, config)
    except ValueError as error:  # PEFT rejects models on which adapters do not work
        raise InputError(
            f"{type(model).__name__} takes no adapters: {one_line(error)}: choose a model whose "
            "layers are all attention layers"
        ) from error
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    for module in adapted.modules():
        if isinstance(module, TrainableTokensLayer):
            module.__class__ = Rows
        elif isinstance(module, LoraLayer) and model.device.type == "cpu":
            if options.dropout:
                module.lora_dropout[ADAPTER] = BitDropout(options.dropout)
            if type(module) is Linear and type(module.base_layer) is torch.nn.Linear:
                module.__class__ = LowRank
    return adapted


@torch.no_grad()
def merge_into(model: PeftModel, plain: PreTrainedModel) -> None:
    """Write the weights of an adapted model into ``plain``, the same model without quantisation.

    Each adapted layer becomes W + (alpha / r) B A in float32, where W is the weight on which the
    adapter was trained; trained rows are copied.
    """
    for name, module in model.named_modules():
        kinds = TrainableTokensLayer, LoraLayer, Linear4bit, Linear8bitLt
        if not isinstance(module, kinds) or name.endswith(".base_layer"):
            continue
        target = name.removeprefix(_PREFIX).removesuffix(".token_adapter")
        layer = plain.get_submodule(target)
        weight = plain.get_parameter(f"{target}.weight")
        if not isinstance(module, TrainableTokensLayer):
            adapted = isinstance(module, LoraLayer)
            base_layer = module.get_base_layer() if adapted else module
            if isinstance(layer, Conv1D) and not isinstance(base_layer, Conv1D):
                weight = weight.T  # as GPT-2's in 4 bits
            base = _base_weight(base_layer)
            weight.copy_(base + module.get_delta_weight(ADAPTER).to(base) if adapted else base)
        else:
            ids = torch.tensor(module.token_indices[ADAPTER], device=weight.device)
            weight[ids] = module.trainable_tokens_delta[ADAPTER].to(weight)


def _chosen_layers(model: PreTrainedModel, targets: str) -> list[str]:
    kind = type(model).__name__
    layers = _linear_layers(model)
    if not layers:
        raise InputError(f"{kind} has no linear layers to adapt: choose another model")
    if targets == ALL_LINEAR:
        return layers
    chosen: set[str] = set()
    for end in targets.split(","):
        matching = {name for name in layers if f".{name}".endswith(f".{end}")}
        if not matching:
            names = ", ".join(sorted({_last(name) for name in layers}))
            raise InputError(
                f"target_modules: {kind} has no linear layer {end} to adapt: choose from {names}"
            )
        chosen |= matching
    return [name for name in layers if name in chosen]


def _linear_layers(model: PreTrainedModel) -> list[str]:
    """Return the names of the layers to adapt; PEFT's own "all-linear" includes experts."""
    head = model.get_output_embeddings()
    fused = {
        getattr(module, name, None)
        for module in model.modules()
        if hasattr(module, "A_log") and hasattr(module, "D")
        for name in _FUSED
    }
    # PEFT takes layers of these names for experts, and adapts the experts instead.
    kind = _MODEL_TO_CONVERSION_PATTERN.get(model.config.model_type, "")
    experts = _MOE_TARGET_MODULE_MAPPING.get(kind, {})
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear | Conv1D)
        and module not in {head, *fused}
        and _last(name) not in experts
        and not type(module).__name__.endswith("Router")
    ]


def _trainable_rows(model: PreTrainedModel, ids: Sequence[int]) -> dict[str, list[int]] | None:
    """Return the rows by module; PEFT itself trains a tied LM head with the embedding."""
    if not ids:
        return None
    names = {module: name for name, module in model.named_modules()}
    head = output_head(model)
    if getattr(head, "bias", None) is not None:
        raise InputError(
            f"{type(model).__name__} has an LM head with a bias, so it cannot learn new tokens: "
            "leave out --augmented"
        )
    own_head = None if is_tied(model) else head
    trained = (model.get_input_embeddings(), own_head, per_layer_table(model))
    return {_last(names[module]): sorted(ids) for module in trained if module is not None}


def _base_weight(layer: torch.nn.Module) -> torch.Tensor:
    """Return the weight of a layer below an adapter in float32, dequantised if needed."""
    weight: torch.Tensor = layer.weight  # type: ignore[assignment]
    if type(weight).__module__.startswith("bitsandbytes."):
        # Not PEFT's function on the layer, which makes bitsandbytes lose the scales of 8 bits.
        weight = dequantize_bnb_weight(weight, state=getattr(layer, "state", None))
    return weight.float()


def _last(name: str) -> str:
    return name.rpartition(".")[2]
