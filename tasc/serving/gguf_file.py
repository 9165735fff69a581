"""Convert a model folder to one GGUF file, by llama.cpp's own converter."""

import logging
import struct
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from tasc.errors import InputError, UnavailableError
from tasc.files.disk import writing
from tasc.files.scratch import scratch
from tasc.models.folder.files import CONFIG, INDEX, copy_json, weight_files
from tasc.models.folder.gguf_architectures import assumed_of_gemma
from tasc.models.folder.older_names import copy_config
from tasc.serving.gguf_ends import stated_ends, undone_fills
from tasc.serving.gguf_vocabulary import SENTENCEPIECE, Vocabulary
from tasc.serving.parts import Parts
from tasc.tokenizer.chat import source_of
from tasc.vocab.exports.export import save

# What the converter raises for a model that it does not know.
_REJECTIONS = (
    *(RuntimeError, LookupError, ValueError, TypeError, AttributeError, AssertionError),
    FileNotFoundError,
)
_SLIDING = "sliding_attention"


def library() -> Any:  # noqa: ANN401
    """Return the converter. Raises UnavailableError if it is not installed."""
    try:
        import conversion
        import conversion.base  # a module of this package, not of another one of this name
    except ImportError as error:
        raise UnavailableError(
            "llama.cpp's converter is not installed: install it with pip install "
            "'tasc-lm[llama-cpp]'"
        ) from error
    for name in (conversion.logger.name, "gguf.gguf_writer"):
        logging.getLogger(name).setLevel(logging.ERROR)
    return conversion


def write_gguf(parts: Parts, vocabulary: Vocabulary, path: Path) -> None:
    """Write the file with weights in f32, f16, bf16 or q8_0; vectors stay in float32.

    The converter gets a folder without code, pickles and the model card. Raises UnavailableError if
    it is not installed, and InputError if it does not know such a model.
    """
    model = parts.folder
    tokenizer = parts.tokenizer
    with scratch() as folder:
        _link(parts, folder)
        save(tokenizer.tokenizer, tokenizer.files, folder)
        try:
            converted = _prepare(folder, parts, vocabulary)
        except _REJECTIONS as error:
            why = str(error) or type(error).__name__
            raise InputError(
                f"model {model}: llama.cpp's converter rejects it ({why}): choose another engine"
            ) from None
        with writing(path), closing(converted.gguf_writer) as writer:
            writer.write_header_to_file(path)
            try:
                writer.write_kv_data_to_file()
            except struct.error as error:  # such as 2^40 positions
                raise InputError(
                    f"{model / CONFIG} has a number that a GGUF file cannot store ({error}): "
                    "correct it"
                ) from None
            writer.write_tensors_to_file()


def _link(parts: Parts, folder: Path) -> None:
    model = parts.folder
    copy_config(model, folder, tied=parts.tied)
    if (model / INDEX).exists():
        copy_json(model / INDEX, folder, f"model {model}")
    for file in weight_files(model):
        (folder / file.name).symlink_to(file.resolve())


def _prepare(folder: Path, parts: Parts, vocabulary: Vocabulary) -> Any:  # noqa: ANN401
    """Return a model of the converter with all tensors and metadata, read when it is written."""
    converted = _opened(folder, parts)
    if not converted.model_tensors:
        raise ValueError("its weights are not in files named model*.safetensors")
    writer = converted.gguf_writer
    converted.set_vocab = partial(_add_vocabulary, writer, parts, vocabulary)
    converted.prepare_tensors()
    converted.prepare_metadata(vocab_only=False)
    written = f"{writer.arch}.attention.sliding_window" in writer.kv_data[0]
    if _has_window(converted.hparams) and not written:
        raise ValueError("it would ignore the sliding window")
    if not parts.tied and not any("output.weight" in tensors for tensors in writer.tensors):
        raise ValueError("it would ignore the LM head, which is not the embedding")
    if ignored := _ignored(converted.hparams, writer.tensors):
        raise ValueError(f"it would ignore {ignored}")
    return converted


def _opened(folder: Path, parts: Parts) -> Any:  # noqa: ANN401 - the converter's own
    conversion = library()
    import gguf

    text = conversion.ModelType.TEXT
    config = conversion.ModelBase.load_hparams(folder, is_mistral_format=False)
    kind = conversion.get_model_class(conversion.get_model_architecture(config, text))
    kind.no_mtp = True  # heads for several tokens, which transformers drops
    weights = parts.options.weights
    numbers = "ALL_F32" if weights == "f32" else f"MOSTLY_{weights.upper()}"
    file_type = getattr(gguf.LlamaFileType, numbers)
    converted = kind(folder, file_type, folder / "unused", model_name=parts.folder.name)
    settings = converted.hparams
    if "n_positions" in settings:  # transformers 5 no longer writes GPT-2's second name of it
        settings.setdefault("n_ctx", settings["n_positions"])
    return converted


def _has_window(config: dict[str, Any]) -> bool:
    layers = config.get("layer_types") or [_SLIDING]
    window = config.get("use_sliding_window", True) and config.get("sliding_window")
    return bool(window) and _SLIDING in layers and window < config["max_position_embeddings"]


def _ignored(config: dict[str, Any], tensors: list[dict[str, Any]]) -> str:
    """Return a setting without effect in llama.cpp, which computes something else; "" if none."""
    from transformers import CONFIG_MAPPING

    activation = config.get("hidden_act")
    usual = getattr(CONFIG_MAPPING[config["model_type"]](), "hidden_act", None)
    if usual == "silu" and activation not in (None, "silu", "swish"):
        return f"hidden_act {activation!r}"
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if rope.get("rope_type") == "llama3" and not any("rope_freqs.weight" in t for t in tensors):
        return "the rope_type 'llama3'"
    if rope.get("rope_type") == "yarn" and rope.get("attention_factor") is not None:
        return "attention_factor of YaRN"
    return _ignored_of_gemma(config)


def _ignored_of_gemma(config: dict[str, Any]) -> str:
    if config["model_type"] not in {"gemma2", "gemma3_text"}:
        return ""
    per_head = config["hidden_size"] // config["num_attention_heads"]
    sizes = config["num_hidden_layers"], per_head, config["head_dim"]
    assumed = assumed_of_gemma(config["model_type"], *sizes)
    differing = [name for name, value in assumed.items() if config.get(name, value) != value]
    return f"{differing[0]} {config[differing[0]]!r:.60}" if differing else ""


def _add_vocabulary(writer: Any, parts: Parts, vocabulary: Vocabulary) -> None:  # noqa: ANN401
    tokenizer = parts.tokenizer
    marked = vocabulary.pre == SENTENCEPIECE
    writer.add_tokenizer_model("llama" if marked else "gpt2")
    writer.add_tokenizer_pre("default" if marked else vocabulary.pre)
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types(vocabulary.types)
    if marked:
        writer.add_token_scores(vocabulary.scores)
        writer.add_add_space_prefix(vocabulary.adds_space)
    else:
        writer.add_token_merges(vocabulary.merges)
    adds = writer.add_eos_token_id, writer.add_eot_token_id, writer.add_eom_token_id
    for add, end in zip(adds, stated_ends(parts), strict=False):
        add(end)
    for name in undone_fills(parts):  # else llama.cpp finds them by their texts
        writer.add_uint32(f"tokenizer.ggml.{name}_token_id", parts.ends[0])
    writer.add_add_bos_token(False)  # as in training
    ids, alone = tokenizer.tokenizer.encode("a").ids, tokenizer.encode(["a"]).tokens
    if ids[:1] != alone[:1].tolist():
        writer.add_bos_token_id(int(ids[0]))
    if template := source_of(tokenizer):
        writer.add_chat_template(template)
