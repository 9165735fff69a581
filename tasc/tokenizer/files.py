"""Reading tokenizers: tokenizer.json, GPT-2's pair, tiktoken, SentencePiece, GGUF, the Hub."""

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from tasc.data.foreign import as_input_error, json_object, one_line, read_whole, text_of
from tasc.data.quiet import no_bars
from tasc.errors import InputError, UnavailableError
from tasc.files.packaged import gguf_file
from tasc.tokenizer.check import check_added_tokens
from tasc.tokenizer.gguf import read_gguf
from tasc.tokenizer.sentencepiece import is_sentencepiece, read_sentencepiece
from tasc.tokenizer.tiktoken import is_tiktoken, read_tiktoken

CONFIGS = ("tokenizer_config.json", "special_tokens_map.json")
COMPANIONS = (*CONFIGS, "chat_template.jinja", "chat_template.json")
_PAIRS = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
_LARGEST = 256 << 20  # bytes of a vocabulary; published ones have at most 35 million
_LARGEST_COMPANION = 16 << 20
_AGAIN = "save the tokenizer again with transformers' save_pretrained"
_SUFFIXES = {".gguf", ".json", ".tiktoken", ".model", ".v3", ".txt"}

Read = tuple[Tokenizer, dict[str, bytes]]  # the tokenizer and its companion files by name


def read_tokenizer(path_or_id: str) -> Read:
    """Return a tokenizer, not yet checked, and the contents of its companion files.

    Arguments and errors are those of ``tasc.tokenizer.loaded.load_tokenizer``. Without companion
    files, a tokenizer_config.json is made, so that exports are complete.
    """
    if file := gguf_file(path_or_id):
        return read_gguf(file)
    path = Path(path_or_id).expanduser()
    if path.is_dir():
        return _from_folder(path, path_or_id)
    if path.is_file():
        return _from_file(path, path_or_id)
    in_folders = path_or_id.startswith(("/", ".", "~")) or path_or_id.count("/") > 1
    if in_folders or path.suffix in _SUFFIXES:
        raise InputError(
            f"{path_or_id}: no such tokenizer or model: pass a folder, a tokenizer.json or a Hub id"
        )
    return _from_hub(path_or_id)


def tokenizer_folder(path: Path) -> Path:
    """Return the folder of the tokenizer: ``path``, or the part that tasc finetune wrote."""
    parts = (path, path / "model", path / "adapter")
    return next((p for p in parts if (p / "tokenizer.json").is_file()), path)


def _from_folder(folder: Path, name: str) -> Read:
    folder = tokenizer_folder(folder)
    if (folder / "tokenizer.json").is_file():
        return _from_file(folder / "tokenizer.json", name)
    for vocabulary, merges in _PAIRS:
        if (folder / vocabulary).is_file() and (folder / merges).is_file():
            return _from_pair(folder / vocabulary, folder / merges, name)
    for path in [*sorted(folder.glob("*.tiktoken")), *sorted(folder.glob("tokenizer.model*"))]:
        if path.is_file() and (is_tiktoken(path) or is_sentencepiece(path)):
            return _from_file(path, name)
    names = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) or "nothing"
    raise InputError(
        f"{name} has no tokenizer: expected tokenizer.json, vocab.json with merges.txt, "
        "encoder.json with vocab.bpe, *.tiktoken or tokenizer.model, found "
        f"{names}: pass a folder with one"
    )


def _from_file(path: Path, name: str) -> Read:
    if path.suffix != ".json":
        if is_sentencepiece(path):
            tokenizer, end = read_sentencepiece(path, read_whole(path, _LARGEST))
        elif is_tiktoken(path):
            tokenizer, end = read_tiktoken(path, read_whole(path, _LARGEST))
        else:
            raise InputError(
                f"{name} is not a tokenizer.json, tiktoken file or SentencePiece model: save the "
                "tokenizer with transformers' save_pretrained to get a tokenizer.json"
            )
        return (tokenizer, made_up_files(end))
    contents = text_of(read_whole(path, _LARGEST), str(path))
    with as_input_error(f"{path} is not a tokenizer.json", _AGAIN):
        tokenizer = Tokenizer.from_str(contents)
    check_added_tokens(tokenizer, contents, str(path))
    return (tokenizer, _companions(path.parent))


def _companions(folder: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for name in COMPANIONS:
        path = folder / name
        if path.is_file():
            files[name] = read_whole(path, _LARGEST_COMPANION)
            if path.suffix == ".json":
                files[name] = _without_code(files[name], str(path))
            else:
                text_of(files[name], str(path))
    return files


def _without_code(content: bytes, path: str) -> bytes:
    """Check a JSON object, and remove an ``auto_map`` that names a class in a Python file."""
    values = json_object(content, path)
    if "." not in json.dumps(values.get("auto_map")):  # exports of new tokens have empty names
        return content
    del values["auto_map"]
    return json.dumps(values, indent=2, ensure_ascii=False).encode() + b"\n"


def _from_pair(vocabulary: Path, merges: Path, name: str) -> Read:
    config = _companions(vocabulary.parent).get("tokenizer_config.json", b"{}")
    kind = json_object(config, f"{name}: tokenizer_config.json").get("tokenizer_class")
    if kind and kind not in {"GPT2Tokenizer", "GPT2TokenizerFast"}:
        raise InputError(
            f"{name}: the pair of files belongs to a {kind}, and does not contain its pattern for "
            "splitting text: pass its tokenizer.json"
        )
    with as_input_error(f"{name}: {vocabulary.name} and {merges.name} are not a BPE pair", _AGAIN):
        model = models.BPE.from_file(str(vocabulary), str(merges))
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return (tokenizer, made_up_files("<|endoftext|>"))


def _from_hub(name: str) -> Read:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    wanted = ["tokenizer.json", "vocab.json", "merges.txt", *COMPANIONS]
    try:
        with no_bars():
            folder = snapshot_download(name, allow_patterns=wanted)
    except LocalEntryNotFoundError:
        raise UnavailableError(
            f"{name} is not a local file or folder, and the Hub cannot be reached: "
            "pass the path of a model or a tokenizer.json"
        ) from None
    except (OSError, HFValidationError) as error:
        raise InputError(
            f"{name} is not a tokenizer on the Hub: {one_line(error)}; pass a folder, a file or "
            "another id"
        ) from None
    return _from_folder(Path(folder), name)


def made_up_files(end: str) -> dict[str, bytes]:
    """Return a tokenizer_config.json with the end token ``end``."""
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": end,
        "pad_token": end,
        "clean_up_tokenization_spaces": False,
    }
    return {"tokenizer_config.json": json.dumps(config, indent=2).encode() + b"\n"}
