"""Loading a causal language model: from a folder or the Hub, as it is or quantised."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig, PreTrainedModel

from tasc.data.foreign import one_line
from tasc.errors import InputError, IntegrityError, TascError, UnavailableError
from tasc.models.folder import model_config
from tasc.models.folder.fetch import model_folder
from tasc.models.folder.files import Shapes, read_json, tensor_shapes, weight_files
from tasc.models.folder.quiet import quiet
from tasc.models.folder.vocabulary import check_tokens
from tasc.tokenizer.loaded import LoadedTokenizer

Dtype = Literal["auto", "float32", "bfloat16"]
Device = Literal["auto", "cpu", "cuda"]
Quantization = Literal["none", "nf4", "8bit"]


def load_model(
    path: str,
    dtype: Dtype = "auto",
    device: Device = "cpu",
    quantize: Quantization = "none",
    tokenizer: LoadedTokenizer | None = None,
) -> PreTrainedModel:
    """Load a causal language model, in evaluation mode.

    The folder may come from anybody: weights are read from safetensors only, no code that comes
    with them is run, and what config.json says is compared with the weights before it is built.

    Args:
        path: a folder with config.json and safetensors weights, or a Hub id.
        dtype: of the parameters; "auto" is the one of the checkpoint. With ``quantize`` it is the
            dtype of what stays unquantised (embeddings, norms, LM head).
        device: "auto" is the first CUDA device, or the CPU where there is none.
        quantize: how bitsandbytes holds the linear layers, LM head apart: "nf4" with double
            quantisation (QLoRA, Dettmers et al. 2023, section 3) and bfloat16 compute, float32
            compute where ``dtype`` says "float32"; or "8bit" (LLM.int8(), arXiv 2208.07339), which
            rounds what such a layer reads to 8 bits, too.
        tokenizer: that encodes what the model will read; None where nothing is encoded, or rows
            are still to be added for its tokens.

    Raises:
        InputError: nothing there, no config.json or one that makes no model, not a causal
            language model, no safetensors, or fewer rows than the tokenizer has tokens.
        IntegrityError: weights are missing, damaged, or not those of config.json.
        UnavailableError: the Hub cannot be reached, a library, memory or the device is not there.
    """
    folder = model_folder(path)
    config = model_config.read_config(folder)
    if (folder / _GENERATION).exists():
        read_json(folder / _GENERATION, f"model {folder}")
    position = resolve_device(device)
    quantised = config.get("quantization_config") is not None
    reduce = quantize != "none"
    if quantised and reduce:
        raise InputError(
            f"model {path} is already quantised (config.json has a quantization_config), which "
            "cannot be quantised again: give the model that it was made from"
        )
    shapes = tensor_shapes(weight_files(folder), f"model {folder}")
    model_config.check_numbers(folder, config, shapes)
    options: dict[str, Any] = {"dtype": dtype}
    if reduce:
        options["quantization_config"] = _quantization(quantize, dtype)
        options["device_map"] = {"": position}
    with _explained(path):
        model = _build(folder, options, shapes, packed=quantised)
        if reduce:
            keep_canonical_layout(model)
        else:
            model.to(position)
        model_config.check_usable(path, model.eval(), reduce)
    if tokenizer is not None:
        check_tokens(tokenizer, model.get_input_embeddings().weight.shape[0])
    model.config._name_or_path = model.name_or_path = path
    for held in filter(None, (model.config, model.generation_config)):
        # What is returned beside logits is for who calls the model to say, and no file's.
        held.output_hidden_states = held.output_attentions = False
    return model


_GENERATION = "generation_config.json"


def resolve_device(device: Device) -> str:
    """Return "cpu" or, as "cuda:0", the CUDA device of this process: the first, if none was set.

    Raises:
        UnavailableError: CUDA was asked for and there is no such device.
    """
    if device == "cpu" or (device == "auto" and not torch.cuda.is_available()):
        return "cpu"
    if not torch.cuda.is_available():
        raise UnavailableError(f"device {device}: no CUDA device was found; use --device cpu")
    return f"cuda:{torch.cuda.current_device()}"


def _quantization(kind: Quantization, dtype: Dtype) -> BitsAndBytesConfig:
    """Return bitsandbytes' configuration; that of "nf4" is App. B.2's."""
    # bitsandbytes reports that an optional kernel download is not there, and each cast to float16.
    for name in ("backends.cpu.ops", "autograd._functions"):
        logging.getLogger(f"bitsandbytes.{name}").setLevel(logging.ERROR)
    if kind == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.float32 if dtype == "float32" else torch.bfloat16,
    )


def keep_canonical_layout(model: torch.nn.Module) -> None:
    """Stop bitsandbytes from repacking weights for CPU inference.

    Its repacking, on the first forward in evaluation mode, cannot be undone exactly, refuses
    layers whose height is no multiple of 32, and lets no gradient through: one evaluation
    between two training steps would silently stop the training of all layers but the last.
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False  # type: ignore[assignment]


def device_has_bfloat16(device: torch.device) -> bool:
    """Say whether the device multiplies bfloat16 matrices in hardware."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    found: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(found.get("amx_bf16") or found.get("avx512_bf16"))


def _build(
    folder: Path, options: dict[str, Any], shapes: Shapes, *, packed: bool
) -> PreTrainedModel:
    """Compare the model that config.json makes with the weights, and load them."""
    common = {"trust_remote_code": False, "local_files_only": True}
    config = AutoConfig.from_pretrained(folder, **common)
    with torch.device("meta"):
        skeleton = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    model_config.check_built(folder, skeleton, shapes, packed=packed)
    model: PreTrainedModel
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, config=config, use_safetensors=True, output_loading_info=True, **common, **options
    )
    if info["missing_keys"]:
        some = ", ".join(sorted(info["missing_keys"])[:3])
        raise IntegrityError(
            f"model {folder}: weights are missing ({some}): fetch or save the model again"
        )
    return model


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Turn whatever transformers raises on a model of a stranger into one line.

    Only its calls stand in the block: its loading raises any type of error on bad input.
    """
    again = "fetch or save the model again"
    try:
        with quiet():
            yield
    except TascError:
        raise
    except ImportError as error:
        raise UnavailableError(
            f"model {path}: {one_line(error)}: install it, or give another model"
        ) from error
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise UnavailableError(
            f"model {path} does not fit into memory: give a smaller one, or another --device"
        ) from error
    except ValueError as error:
        raise InputError(f"model {path} cannot be loaded: {one_line(error)}: {again}") from error
    except Exception as error:
        text = f"{type(error).__name__}: {one_line(error)}"
        raise IntegrityError(f"model {path} cannot be read: {text}: {again}") from error
