"""GGUF files as models: the same weights, tokens and settings, and no trust in their lengths."""

import json
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors.torch import load_file
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

import tasc
from tasc.errors import InputError, IntegrityError
from tasc.files.gguf_header import read_header
from tasc.models.folder.fetch import model_folder
from tasc.models.folder.gguf_architectures import ARCHITECTURES, llama3_factors
from tasc.models.folder.gguf_model import convert
from tasc.models.load import load_model
from tasc.serving.exports.llama_cpp import MODEL
from tasc.tokenizer.loaded import load_tokenizer
from tests.pico import TEXTS, make_base

gguf = pytest.importorskip("gguf", reason="the extra llama-cpp is not installed")
pytestmark = pytest.mark.usefixtures("own_cache")


def exported(tmp_path: Path, architecture="llama", weights="f32", **shape) -> tuple[Path, Path]:
    model, out = make_base(tmp_path / "model", architecture, **shape), tmp_path / "exported"
    tasc.export(tasc.ExportOptions(model=str(model), to="llama-cpp", weights=weights)).save(out)
    return model, out / MODEL


def small(file: Path, tensors=None, **fields) -> Path:
    """Write a GGUF file of a few fields, as a Llama of one layer."""
    writer = gguf.GGUFWriter(None, "llama")
    plain = {"embedding_length": 32, "feed_forward_length": 32, "block_count": 1}
    plain |= {"context_length": 64, "attention.head_count": 2}
    for name, value in plain.items():
        writer.add_uint32(f"llama.{name}", value)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(["a", "b", "ab", "<end>", "[PAD4]"])
    writer.add_token_types([1, 1, 1, 3, 5])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(3)
    for name, value in fields.items():
        writer.kv_data[0].pop(name, None)
        add = writer.add_string if isinstance(value, str) else writer.add_uint32
        add(name, value)
    for name, values in ({"token_embd.weight": np.zeros((5, 32))} | (tensors or {})).items():
        if isinstance(values, tuple):
            writer.add_tensor(name, values[0], raw_dtype=values[1])
        else:
            writer.add_tensor(name, values.astype(np.float32))
    return written(writer, file)


def written(writer, file: Path) -> Path:
    writer.write_header_to_file(file)
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def assert_same(ours, theirs):
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("architecture", [a.model_type for a in ARCHITECTURES.values()])
@pytest.mark.parametrize("tied", [True, False])
def test_a_file_gives_the_model_that_was_written(tmp_path, architecture, tied):
    if architecture in {"gemma", "gemma2"} and not tied:
        pytest.skip("llama.cpp has no head of its own for these")
    # What llama.cpp has in its code, or leaves out.
    assumed: dict[str, dict[str, Any]] = {
        "starcoder2": {"sliding_window": None},
        "gemma2": {"query_pre_attn_scalar": 16},
        "gemma3_text": {"query_pre_attn_scalar": 16},
    }
    shape = assumed.get(architecture, {})
    folder, file = exported(tmp_path, architecture, tied=tied, **shape)
    ours, theirs = load_model(str(file)), load_model(str(folder))
    assert_same(ours, theirs)
    ids = torch.arange(1, 40)[None]
    assert torch.equal(ours(ids).logits, theirs(ids).logits)
    tokenizers = load_tokenizer(str(file)), load_tokenizer(str(folder))
    assert tokenizers[0].identity == tokenizers[1].identity
    for text in (*TEXTS, "2024  é日\n\n's"):
        first, second = (tokenizer.encode([text]).tokens for tokenizer in tokenizers)
        assert first.tolist() == second.tolist()


LINEAR = {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}
PLAIN = {"rope_type": "default", "rope_theta": 1e4}
LONG = {"rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [4.0] * 8}


@pytest.mark.parametrize(
    ("architecture", "shape"),
    [
        ("llama", {"rope_parameters": LINEAR}),
        (
            "gemma3_text",
            {
                "query_pre_attn_scalar": 16,
                "num_hidden_layers": 6,
                "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
                "rope_parameters": {"sliding_attention": PLAIN, "full_attention": LINEAR},
            },
        ),
        (
            "phi3",
            {
                "rope_parameters": LONG | {"rope_theta": 1e4},
                "original_max_position_embeddings": 16,
            },
        ),
    ],
)
def test_scaled_rotary_positions_stay_scaled(tmp_path, architecture, shape):
    folder, file = exported(tmp_path, architecture, **shape)
    ours, theirs = load_model(str(file)), load_model(str(folder))
    ids = torch.arange(1, 40)[None]
    torch.testing.assert_close(ours(ids).logits, theirs(ids).logits, rtol=1e-5, atol=1e-5)
    scaled = theirs.config.rope_parameters
    factor = (scaled.get("full_attention") or scaled).get("rope_type")
    loaded = ours.config.rope_parameters
    assert (loaded.get("full_attention") or loaded)["rope_type"] == factor != "default"


@pytest.mark.parametrize(("weights", "dtype"), [("bf16", torch.bfloat16), ("f16", torch.float32)])
def test_half_precision_keeps_its_values(tmp_path, weights, dtype):
    folder, file = exported(tmp_path, "llama", weights)
    kind = {"bf16": torch.bfloat16, "f16": torch.float16}[weights]
    found, whole = (
        load_model(str(path)).get_parameter("model.layers.1.mlp.up_proj.weight")
        for path in (file, folder)
    )
    assert found.dtype == dtype
    assert torch.equal(found, whole.to(kind).to(dtype))


def q4_1(block: bytes) -> list[float]:
    """ggml's block of 32 weights: scale, minimum, then the low and the high halves of bytes."""
    d, m = np.frombuffer(block[:4], np.float16).astype(np.float32)
    low, high = ([d * (b & 15) + m for b in block[4:]], [d * (b >> 4) + m for b in block[4:]])
    return low + high


def q4_k(block: bytes) -> list[float]:
    """ggml's block of 256 weights: 8 groups with scales and minima of 6 bits."""
    d, dmin = np.frombuffer(block[:4], np.float16).astype(np.float32)
    s, weights = block[4:16], []
    for j in range(8):
        if j < 4:
            scale, least = s[j] & 63, s[j + 4] & 63
        else:
            scale = s[j + 4] & 15 | s[j - 4] >> 6 << 4
            least = s[j + 4] >> 4 | s[j] >> 6 << 4
        packed = block[16 + 32 * (j // 2) : 48 + 32 * (j // 2)]
        nibbles = [b >> 4 if j % 2 else b & 15 for b in packed]
        weights += [d * scale * q - dmin * least for q in nibbles]
    return weights


@pytest.mark.parametrize(
    ("kind", "reference", "columns", "size"), [("Q4_1", q4_1, 32, 20), ("Q4_K", q4_k, 256, 144)]
)
def test_quantised_blocks_are_dequantised_as_ggml_defines_them(
    tmp_path, kind, reference, columns, size
):
    drawn = np.random.default_rng(0)
    rows = drawn.integers(0, 256, (6, size), np.uint8)
    rows[:, :4] = drawn.uniform(0.1, 2, (6, 2)).astype(np.float16).view(np.uint8)
    raw = rows, getattr(gguf.GGMLQuantizationType, kind)
    file = small(tmp_path / "m.gguf", {"blk.0.ffn_up.weight": raw})
    convert(file, tmp_path)
    (weights,) = (load_file(f) for f in tmp_path.glob("*.safetensors"))
    found = weights["model.layers.0.mlp.up_proj.weight"]
    expected = torch.tensor([reference(row.tobytes()) for row in rows], dtype=torch.float32)
    assert found.shape == (6, columns)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_llama_3_positions_are_recognised_by_their_factors(tmp_path):
    known = llama3_factors(500_000.0, 128, 32.0)
    assert known[0] == 1
    assert known[-1] == 32
    fields = {"llama.attention.key_length": 128, "llama.rope.dimension_count": 128}
    factors = llama3_factors(10_000.0, 128, 8.0)
    file = small(tmp_path / "m.gguf", {"rope_freqs.weight": factors}, **fields)
    (tmp_path / "out").mkdir()
    convert(file, tmp_path / "out")
    config = json.loads((tmp_path / "out/config.json").read_text())
    made, _ = ROPE_INIT_FUNCTIONS["llama3"](LlamaConfig(**config), "cpu")
    plain = 10_000.0 ** -(np.arange(0, 128, 2) / 128)
    np.testing.assert_allclose(made.numpy(), plain / factors, rtol=1e-5)
    small(tmp_path / "n.gguf", {"rope_freqs.weight": factors * 1.1}, **fields)
    with pytest.raises(InputError, match="not Llama 3's"):
        convert(tmp_path / "n.gguf", tmp_path)


def test_a_file_is_converted_once_and_nothing_is_left_of_a_failure(tmp_path, own_cache):
    _, file = exported(tmp_path)
    first = model_folder(str(file))
    written = {path: path.stat().st_mtime_ns for path in first.iterdir()}
    moved = file.rename(tmp_path / "moved.gguf")
    assert model_folder(str(moved)) == first
    assert {path: path.stat().st_mtime_ns for path in first.iterdir()} == written
    assert [path.name for path in (own_cache / "models").iterdir()] == [first.name]
    broken = small(tmp_path / "m.gguf", **{"llama.expert_count": 8})
    with pytest.raises(InputError, match="has experts, which tasc does not read"):
        model_folder(str(broken))
    assert [path.name for path in (own_cache / "models").iterdir()] == [first.name]


def test_several_files_of_weights_make_one_model(tmp_path, monkeypatch):
    monkeypatch.setattr("tasc.models.folder.gguf_model._SHARD", 1 << 14)
    folder, file = exported(tmp_path)
    assert len(list(model_folder(str(file)).glob("*.safetensors"))) > 1
    assert_same(load_model(str(file)), load_model(str(folder)))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"general.architecture": "mamba"}, "architecture 'mamba', but tasc reads GGUF files of"),
        ({"tokenizer.ggml.model": "t5"}, "tokenizer of kind 't5'"),
        ({"tokenizer.ggml.pre": "tekken"}, "pre-tokenizer 'tekken', which is not supported"),
        ({"tokenizer.ggml.eos_token_id": 9}, "eos_token_id is 9, but there are 4 tokens"),
        ({"llama.rope.scaling.type": "yarn"}, "rotary positions of type 'yarn'"),
        ({"llama.rope.dimension_count": 8}, "rotary positions in a part of each head"),
        ({"llama.attention.head_count": 0}, "head_count is 0, but must be at least 1"),
        ({"llama.block_count": "1"}, "block_count is of type str"),
        ({"general.alignment": 0}, "general.alignment is 0"),
    ],
)
def test_what_is_not_supported_is_refused_in_one_line(tmp_path, fields, said):
    with pytest.raises(InputError, match=said) as caught:
        model_folder(str(small(tmp_path / "m.gguf", **fields)))
    assert "\n" not in str(caught.value)


def test_tensors_that_do_not_fit_are_refused(tmp_path):
    for name, rows, said in (
        ("blk.0.conv.weight", 2, "tensor 'blk.0.conv.weight'"),
        ("x.weight", 2, "tensor 'x.weight'"),
        ("blk.0.attn_q.weight", 6, "does not have 2 heads"),
    ):
        file = small(tmp_path / "m.gguf", {name: np.zeros((rows, 32))})
        with pytest.raises(InputError, match=said):
            model_folder(str(file))
    file = small(tmp_path / "m.gguf")
    with pytest.raises(IntegrityError, match="weights are missing"):
        load_model(str(file))
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    with pytest.raises(InputError, match="ends behind the end of the file"):
        model_folder(str(file))


def test_false_lengths_end_in_an_error_and_not_in_memory(tmp_path):
    """A list of 2**62 numbers, a text of 2**60 bytes, 2**40 fields, 2**31 dimensions."""
    start = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k"
    tensor = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + struct.pack("<Q", 1) + b"t"
    for contents in (
        start + struct.pack("<IIQ", 9, 4, 1 << 62),
        start + struct.pack("<IIQ", 9, 8, 1 << 60),
        start + struct.pack("<IQ", 8, 1 << 60),
        start + struct.pack("<II", 9, 9),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 40),
        tensor + struct.pack("<I", 1 << 31),
        b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
        b"GGML" + bytes(100),
        b"",
    ):
        (tmp_path / "m.gguf").write_bytes(contents)
        with pytest.raises(InputError, match="is not a GGUF file"):
            read_header(tmp_path / "m.gguf")


def test_more_layers_than_tensors_are_refused(tmp_path):
    file = small(tmp_path / "m.gguf", **{"llama.block_count": 1 << 30})
    with pytest.raises(InputError, match="block_count is 1,073,741,824, but there are"):
        convert(file, tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    return small(tmp_path_factory.mktemp("whole") / "m.gguf").read_bytes()


@example(position=698, value=0)  # no columns
@given(position=st.integers(0, 900), value=st.integers(0, 255))
def test_a_changed_byte_gives_a_header_or_an_error(tmp_path_factory, whole, position, value):
    file = tmp_path_factory.mktemp("changed") / "m.gguf"
    changed = bytearray(whole)
    changed[position % len(whole)] = value
    file.write_bytes(changed)
    with suppress(InputError):
        convert(file, file.parent)
        load_tokenizer(str(file))


def test_a_sentencepiece_vocabulary_marks_spaces(tmp_path):
    writer = gguf.GGUFWriter(None, "llama")
    writer.add_tokenizer_model("llama")
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), "▁a", "b", "▁", "a"]
    writer.add_token_list([*pieces, "▁ab"])
    writer.add_token_types([2, 3, 3, *[6] * 256, 1, 1, 1, 1, 1])
    writer.add_token_scores([0.0] * 259 + [-1.0, -3.0, -4.0, -5.0, -2.0])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    loaded = load_tokenizer(str(written(writer, tmp_path / "m.gguf")))
    assert loaded.tokenizer.encode("ab é").tokens == ["<s>", "▁ab", "▁", "<0xC3>", "<0xA9>"]
    assert loaded.eos_id == 2
    assert loaded.decode(loaded.encode(["ab a é\n"]).tokens.tolist()) == "ab a é\n"
