"""Load a causal language model from a folder or the Hub, optionally quantised."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig, PreTrainedModel
from transformers.configuration_utils import PreTrainedConfig

from tasc.data.foreign import one_line
from tasc.errors import InputError, IntegrityError, TascError, UnavailableError
from tasc.models.folder import model_config, tying
from tasc.models.folder.fetch import model_folder
from tasc.models.folder.files import AGAIN, CODE, tensor_shapes, weight_files
from tasc.models.folder.quiet import quiet
from tasc.models.folder.vocabulary import check_tokens
from tasc.models.packed import can_pack, pack
from tasc.tokenizer.loaded import LoadedTokenizer

Dtype = Literal["auto", "float32", "bfloat16"]
DecodingDtype = Literal["auto", "float32", "bfloat16", "int8"]
Device = Literal["auto", "cpu", "cuda"]
Quantization = Literal["none", "nf4", "8bit"]
_EXTRA_OUTPUTS = {"output_hidden_states", "output_attentions", "output_router_logits"}
_LOCAL: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}


def load_model(
    path: str,
    dtype: Dtype = "auto",
    device: Device = "cpu",
    quantize: Quantization = "none",
    tokenizer: LoadedTokenizer | None = None,
) -> PreTrainedModel:
    """Load a causal language model, in evaluation mode.

    The folder is not trusted: only safetensors weights are read, no code in it runs, and
    config.json is checked against the weights before the model is built.

    Args:
        path: a model folder, a GGUF file, a packaged model such as "smollm2", or a Hub id.
        dtype: of the parameters that are not quantised; "auto" is the checkpoint's.
        device: "auto" is the first CUDA device, else the CPU.
        quantize: the linear layers except the LM head, by bitsandbytes: "nf4" with double
            quantisation (QLoRA, Dettmers et al. 2023, section 3) and bfloat16 compute (float32 if
            ``dtype`` is "float32"), or "8bit" (LLM.int8(), arXiv 2208.07339), which also rounds
            the inputs of these layers to 8 bits.
        tokenizer: checked against the embedding; None if rows are still to be added.

    Raises InputError for no model, no safetensors, or fewer embedding rows than tokens;
    IntegrityError for weights that are missing, damaged, or do not fit config.json;
    UnavailableError for the Hub, a library, the device, or too little memory.
    """
    target_device = resolve_device(device)
    reduce = quantize != "none"
    folder, config = check_model(path, whole=reduce)
    options = {"config": config, "dtype": dtype}
    if reduce:
        options["quantization_config"] = _quantization(quantize, dtype)
        options["device_map"] = {"": target_device}
    with _explained(path):
        model = _read(folder, options)
        # bitsandbytes would repack weights on the first forward in evaluation mode on a CPU. That
        # cannot be undone exactly, fails for some heights, and blocks gradients.
        for module in model.modules() if reduce else ():
            if hasattr(module, "support_avx512bf16_for_cpu"):
                module.support_avx512bf16_for_cpu = False
        if not reduce:
            model.to(target_device)
        model_config.check_usable(path, model.eval(), reduce)
    if tokenizer is not None:
        check_tokens(tokenizer, model.get_input_embeddings().weight.shape[0])
    model.config._name_or_path = model.name_or_path = path
    return model


def _read(folder: Path, options: dict[str, Any]) -> PreTrainedModel:
    model: PreTrainedModel
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, use_safetensors=True, output_loading_info=True, **_LOCAL, **options
    )
    if missing := ", ".join(sorted(info["missing_keys"])[:3]):
        raise IntegrityError(f"model {folder}: weights are missing ({missing}): {AGAIN}")
    tying.correct(model.config, tied=tying.is_tied(model))
    _keep_soft_cap(model)
    for settings in filter(None, (model.config, model.generation_config)):
        # The caller decides what is returned beside logits, not a file.
        for name in vars(settings).keys() & _EXTRA_OUTPUTS:
            setattr(settings, name, False)
    return model


def _keep_soft_cap(model: PreTrainedModel) -> None:
    """Let transformers cap the scores of attention (Gemma 2), which its ``sdpa`` leaves out.

    Before 5.21 transformers chooses ``sdpa`` for these models all the same.
    """
    capped = getattr(model.config, "attn_logit_softcapping", None) is not None
    if capped and model.config._attn_implementation == "sdpa":
        model.set_attn_implementation("eager")


def check_model(path: str, *, whole: bool = False) -> tuple[Path, PreTrainedConfig]:
    """Return the folder of a model and its configuration, checked without loading the weights.

    The configuration says whether the LM head is the embedding, as the weights have it (see
    ``folder.tying``). ``whole``: the weights must not be quantised. Code that config.json names is
    dropped. Raises the errors of ``load_model``.
    """
    folder = model_folder(path)
    stated = model_config.read_config(folder)
    quantised = stated.get("quantization_config") is not None
    if quantised and whole:
        raise InputError(
            f"model {path} is already quantised (config.json has a quantization_config) and cannot "
            "be quantised again, merged into or trained as a whole: use the original model"
        )
    files = weight_files(folder)
    shapes = tensor_shapes(files, f"model {folder}")
    model_config.check_numbers(folder, stated, shapes)
    with _explained(path):
        config = AutoConfig.from_pretrained(folder, **_LOCAL)
        for key in CODE:
            vars(config).pop(key, None)
        with torch.device("meta"):
            skeleton = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
        model_config.check_built(folder, skeleton, shapes, packed=quantised)
        tied = tying.tied_in_files(folder, stated, skeleton, files, shapes)
        tying.correct(config, tied=tied)
    return folder, config


def resolve_device(device: Device) -> str:
    """Return "cpu", or this process's current CUDA device, such as "cuda:0".

    Raises UnavailableError if ``device`` is "cuda" and there is none.
    """
    if device != "cpu" and torch.cuda.is_available():
        return f"cuda:{torch.cuda.current_device()}"
    if device == "cuda":
        raise UnavailableError(f"device {device}: no CUDA device found: use --device cpu")
    return "cpu"


def _quantization(kind: Quantization, dtype: Dtype) -> BitsAndBytesConfig:
    """Return bitsandbytes' configuration; "nf4" as in App. B.2."""
    # bitsandbytes logs a missing optional kernel, and each cast to float16.
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


def device_has_bfloat16(device: torch.device) -> bool:
    """Return whether the device multiplies bfloat16 matrices in hardware."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    capabilities: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(capabilities.get("amx_bf16") or capabilities.get("avx512_bf16"))


def decoding_dtype(dtype: DecodingDtype, device: Device) -> Dtype:
    """Return the dtype to decode in: on a CPU "auto" is the faster of bfloat16 and float32.

    Reading the weights is most of a step, so bfloat16 is faster wherever a CPU multiplies in it.
    "int8" is a dtype of weights, which are multiplied in the dtype of "auto".
    """
    if dtype in ("float32", "bfloat16"):
        return dtype
    if resolve_device(device) != "cpu":
        return "auto"
    return "bfloat16" if device_has_bfloat16(torch.device("cpu")) else "float32"


def training_dtype(dtype: Dtype, device: Device) -> Dtype:
    """Return the dtype to train in: with "auto", float32 on a CPU that cannot multiply bfloat16.

    Such a CPU emulates the products of a bfloat16 checkpoint, 20 times as slowly (SmolLM2-135M with
    AVX2). Merged weights are not affected: adapters are merged into the checkpoint as it is.
    """
    cpu = resolve_device(device) == "cpu"
    emulated = cpu and not device_has_bfloat16(torch.device("cpu"))
    return "float32" if dtype == "auto" and emulated else dtype


def load_to_decode(
    path: str,
    dtype: DecodingDtype,
    device: Device,
    tokenizer: LoadedTokenizer | None,
    *,
    packed: bool = True,
) -> PreTrainedModel:
    """Load a model to decode with, and pack its linear layers unless ``packed`` is false.

    Raises UnavailableError for "int8" without packed layers, and what ``load_model`` raises.
    """
    int8 = dtype == "int8"
    if int8 and resolve_device(device) != "cpu":
        raise UnavailableError(
            f"dtype int8 is for CPUs, and the device is {resolve_device(device)}: use --device cpu"
        )
    if int8 and not can_pack():
        raise UnavailableError(
            "dtype int8 needs a CPU with AVX2, AVX-512 or NEON: use --dtype float32"
        )
    model = load_model(path, decoding_dtype(dtype, device), device, tokenizer=tokenizer)
    if packed:
        pack(model, int8=int8)
    return model


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Turn any error of transformers on bad files, of whatever class, into one line."""
    try:
        with quiet():
            yield
    except TascError:
        raise
    except ImportError as error:
        raise UnavailableError(
            f"model {path}: {one_line(error).rstrip('.')}: install it, or use another model"
        ) from error
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise UnavailableError(
            f"model {path} does not fit into memory: use a smaller one, or another --device"
        ) from error
    except ValueError as error:
        raise InputError(f"model {path} cannot be loaded: {one_line(error)}: {AGAIN}") from error
    except Exception as error:
        text = f"{type(error).__name__}: {one_line(error)}"
        raise IntegrityError(f"model {path} cannot be read: {text}: {AGAIN}") from error
