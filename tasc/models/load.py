"""Loading a causal language model: from a folder or the Hub, as it is or quantised to 4 bits."""

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import logging as transformers_logging

from tasc.errors import InputError, IntegrityError, UnavailableError

Dtype = Literal["auto", "float32", "bfloat16"]
Device = Literal["auto", "cpu", "cuda"]

_CAUSAL = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


def load_model(
    path: str,
    dtype: Dtype = "auto",
    device: Device = "cpu",
    quantize: bool = False,
    *,
    trust_remote_code: bool = False,
) -> PreTrainedModel:
    """Load a causal language model, in evaluation mode. Weights are read from safetensors only.

    Args:
        path: a folder with config.json and safetensors weights, or a Hub id.
        dtype: of the parameters; "auto" is the one of the checkpoint. With ``quantize`` it is the
            dtype of what stays unquantised (embeddings, norms, LM head).
        device: "auto" is the first CUDA device, or the CPU where there is none.
        quantize: load the linear layers, LM head apart, as bitsandbytes NF4 with double
            quantisation (QLoRA, Dettmers et al. 2023, section 3) and bfloat16 compute; float32
            compute where ``dtype`` says "float32".
        trust_remote_code: run the model code that comes with the checkpoint.

    Raises:
        InputError: nothing there, no config.json, not a causal language model, or no safetensors.
        IntegrityError: weights are missing or damaged.
        UnavailableError: the Hub cannot be reached, or the device is not there.
    """
    if Path(path).expanduser().exists():
        path = str(Path(path).expanduser())
        _check_folder(Path(path), trust_remote_code)
    elif path.startswith((".", "/", "~")) or not _HUB_ID.fullmatch(path):
        raise InputError(f"model {path}: no such folder; give a model folder or a Hub id")
    place = resolve_device(device)
    options: dict[str, Any] = {
        "dtype": dtype,
        "use_safetensors": True,
        "trust_remote_code": trust_remote_code,
        "output_loading_info": True,
    }
    if quantize:
        options["quantization_config"] = nf4("float32" if dtype == "float32" else "bfloat16")
        options["device_map"] = {"": place}
    model, info = _from_pretrained(path, options)
    if info["missing_keys"]:
        some = ", ".join(sorted(info["missing_keys"])[:3])
        raise IntegrityError(
            f"model {path}: weights are missing ({some}): fetch or save the model again"
        )
    if quantize:
        keep_canonical_layout(model)
    else:
        model.to(place)
    loaded: PreTrainedModel = model.eval()
    return loaded


def resolve_device(device: Device) -> str:
    """Return "cpu" or "cuda:0".

    Raises:
        UnavailableError: CUDA was asked for and there is no such device.
    """
    if device == "cpu" or (device == "auto" and not torch.cuda.is_available()):
        return "cpu"
    if not torch.cuda.is_available():
        raise UnavailableError(f"device {device}: no CUDA device was found; use --device cpu")
    return "cuda:0"


def nf4(compute: Literal["bfloat16", "float32"] = "bfloat16") -> BitsAndBytesConfig:
    """Return the quantisation of App. B.2: NF4, double quantisation, bfloat16 compute."""
    # On import bitsandbytes reports that an optional kernel download is not there.
    logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=getattr(torch, compute),
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


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' bars and reports off the terminal; what matters is raised anyway."""
    level = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()


def _from_pretrained(path: str, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    try:
        with quiet():
            loaded: tuple[Any, dict[str, Any]] = AutoModelForCausalLM.from_pretrained(
                path, **options
            )
    except ImportError as error:
        raise UnavailableError(f"model {path}: {_first_line(error)}") from error
    except OSError as error:
        raise _explained(path, error) from error
    except ValueError as error:
        raise InputError(f"model {path}: {_first_line(error)}") from error
    except RuntimeError as error:
        raise IntegrityError(f"model {path}: cannot be read: {_first_line(error)}") from error
    except Exception as error:
        if type(error).__name__ != "SafetensorError":  # its class is not exported for typing
            raise
        raise IntegrityError(f"model {path}: damaged weights: {_first_line(error)}") from error
    return loaded


def _check_folder(folder: Path, trust_remote_code: bool) -> None:
    if not folder.is_dir():
        raise InputError(f"model {folder} is a file: give the folder that holds config.json")
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"model {folder} has no config.json: it is not a model folder") from None
    except (OSError, ValueError) as error:
        raise InputError(
            f"model {folder}: config.json is not JSON: {_first_line(error)}"
        ) from error
    names = config.get("architectures") or [] if isinstance(config, dict) else []
    kind = config.get("model_type") if isinstance(config, dict) else None
    causal = any(name.endswith(_CAUSAL) for name in names) or (
        not names and kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    )
    if not causal and not trust_remote_code:
        seen = ", ".join(names) or f"model_type {kind}"
        raise InputError(f"model {folder} is not a causal language model: config.json says {seen}")


def _explained(path: str, error: OSError) -> InputError | UnavailableError:
    text = str(error)
    if "connect" in text or "offline" in text or "timed out" in text:
        return UnavailableError(
            f"model {path}: no such folder here, and the Hub cannot be reached; "
            "give the path of a model folder"
        )
    if "safetensors" in text:
        return InputError(
            f"model {path}: no safetensors weights; convert it with save_pretrained of transformers"
        )
    return InputError(f"model {path}: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
