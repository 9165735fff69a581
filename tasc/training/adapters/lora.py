"""LoRA with trainable rows for new tokens: attach the adapter, and merge it into plain weights.

Dettmers et al. 2023 for the 4-bit base under low-rank adapters; section 4.2 and App. B.2 of
"Task-Centric Acceleration" for what trains: adapters on attention and MLP, and rows of the
embedding and the LM head: all of both matrices in App. B.2, those of new tokens by section 4.2's
count of parameters (6 %).
"""

from collections.abc import Sequence

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import LoraLayer
from peft.tuners.trainable_tokens import TrainableTokensLayer
from peft.utils.integrations import dequantize_bnb_weight
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from tasc.data.foreign import one_line
from tasc.errors import InputError
from tasc.models.embeddings import is_tied, output_head
from tasc.models.folder.quiet import quiet
from tasc.training.adapters.dropout import BitDropout
from tasc.training.adapters.options import ALL_LINEAR

_ADAPTER = "default"
_PREFIX = "base_model.model."


def attach(
    model: PreTrainedModel,
    rows: Sequence[int],
    *,
    rank: int,
    alpha: int,
    dropout: float,
    targets: str = ALL_LINEAR,
) -> PeftModel:
    """Freeze a model and put LoRA on its linear layers but the LM head.

    ``targets`` are the ends of their names with commas between; all by default.

    The experts of a mixture are one tensor of all in transformers 5, and no linear layers: they
    stay as they are.

    ``rows`` of the embedding and of the LM head become trainable beside it. All trainable
    parameters are float32, whatever the model is in: an AdamW step is far below what bfloat16
    resolves.

    Raises:
        InputError: an LM head with a bias, which PEFT's trainable rows leave out, a target that
            is none of its layers, or a model that PEFT puts no adapters on.
    """
    kind = type(model).__name__
    config = LoraConfig(
        r=rank,
        lora_alpha=alpha,
        lora_dropout=dropout,
        target_modules=_chosen_layers(model, targets),
        trainable_token_indices=_trainable_rows(model, rows),
        task_type="CAUSAL_LM",
    )
    try:
        with quiet():
            adapted = get_peft_model(model, config)
    except ValueError as error:  # it knows kinds of models on which adapters do not work
        raise InputError(
            f"{kind} takes no adapters: {one_line(error)}: choose a model whose layers all attend"
        ) from error
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    if dropout and model.device.type == "cpu":
        for module in adapted.modules():
            if isinstance(module, LoraLayer):
                module.lora_dropout[_ADAPTER] = BitDropout(dropout)
    return adapted


def parameter_groups(
    model: PeftModel, rate: float, embedding_rate: float
) -> list[dict[str, object]]:
    """Return AdamW groups without decay: adapters at ``rate``, rows at ``embedding_rate``."""
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    rows = [p for n, p in trained if "trainable_tokens" in n]
    adapters = [p for n, p in trained if "trainable_tokens" not in n]
    pairs = [(adapters, rate), (rows, embedding_rate)]
    return [{"params": ps, "lr": lr, "weight_decay": 0.0} for ps, lr in pairs if ps]


@torch.no_grad()
def merge_into(model: PeftModel, plain: PreTrainedModel, *, dequantised: bool = True) -> None:
    """Write the weights of an adapted model into ``plain``, the same model without quantisation.

    Every adapted layer becomes W + (alpha / r) B A, computed in float32; new rows are copied.

    Args:
        model: what ``attach`` returned, after training.
        plain: loaded from the same position, with embeddings of the same size.
        dequantised: W is the quantised weight the adapter was trained on top of; else the original
            weight of ``plain``, which the adapter has never seen.
    """
    for name, module in model.named_modules():
        if not isinstance(module, TrainableTokensLayer | LoraLayer):
            continue
        target = name.removeprefix(_PREFIX).removesuffix(".token_adapter") + ".weight"
        weight = plain.get_parameter(target)
        if _is_turned(module, plain.get_submodule(target.removesuffix(".weight"))):
            weight = weight.T
        if isinstance(module, LoraLayer):
            base = _base_weight(module) if dequantised else weight.float()
            weight.copy_(base + module.get_delta_weight(_ADAPTER).to(base))
        else:
            ids = torch.tensor(module.token_indices[_ADAPTER], device=weight.device)
            weight[ids] = module.trainable_tokens_delta[_ADAPTER].to(weight)


def _chosen_layers(model: PreTrainedModel, targets: str) -> list[str]:
    """Return the full names of the layers that ``targets`` names."""
    kind, layers = type(model).__name__, _linear_layers(model)
    if not layers:
        raise InputError(f"{kind} has no linear layers to adapt: choose another model")
    if targets == ALL_LINEAR:
        return layers
    chosen: set[str] = set()
    for end in targets.split(","):
        found = {name for name in layers if f".{name}".endswith(f".{end}")}
        if not found:
            known = ", ".join(sorted({_last(name) for name in layers}))
            raise InputError(
                f"target_modules: {kind} has no linear layer {end} that takes an adapter: name "
                f"some of {known}"
            )
        chosen |= found
    return [name for name in layers if name in chosen]


def _linear_layers(model: PreTrainedModel) -> list[str]:
    """Return the names of what the adapters go on; PEFT's own "all-linear" also takes experts."""
    head = model.get_output_embeddings()
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear | Conv1D) and module is not head
    ]


def _is_turned(adapted: torch.nn.Module, plain: torch.nn.Module) -> bool:
    """Say whether a layer with an adapter holds its plain weight transposed: GPT-2's in 4 bits."""
    if not isinstance(adapted, LoraLayer):
        return False
    return isinstance(plain, Conv1D) and not isinstance(adapted.get_base_layer(), Conv1D)


def _trainable_rows(model: PreTrainedModel, ids: Sequence[int]) -> dict[str, list[int]] | None:
    """Module name -> rows. For tied matrices PEFT trains the LM head along with the embedding."""
    if not ids:
        return None
    names = {module: name for name, module in model.named_modules()}
    head = output_head(model)
    if getattr(head, "bias", None) is not None:
        raise InputError(
            f"{type(model).__name__} has an LM head with a bias, which cannot learn new tokens: "
            "leave out --augmented"
        )
    rows = {_last(names[model.get_input_embeddings()]): list(ids)}
    if not is_tied(model):
        rows[_last(names[head])] = list(ids)
    return rows


def _base_weight(adapted: LoraLayer) -> torch.Tensor:
    """Return the weight below an adapter in float32, from 4 or 8 bits where it is quantised."""
    layer = adapted.get_base_layer()
    weight: torch.Tensor = layer.weight
    if type(weight).__module__.startswith("bitsandbytes."):
        # Not PEFT's call on the layer, after which bitsandbytes has lost the scales of 8 bits.
        weight = dequantize_bnb_weight(weight, state=getattr(layer, "state", None))
    return weight.float()


def _last(name: str) -> str:
    return name.rpartition(".")[2]
