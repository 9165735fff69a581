"""The CUDA library; its kernels on the CPU, by kernels/emulation, equal native ones and twins."""

import shutil
import subprocess
from importlib.resources import files

import numpy as np
import pytest
import torch

from tasc.backend import cuda
from tasc.backend.tree import ancestor_bits
from tasc.commands.doctor import DoctorOptions, examine
from tasc.decoding.drafters.heads.draft_vocab.window import Window
from tasc.decoding.verify import ops
from tasc.errors import InputError, UnavailableError
from tasc.models.cache import compact_reference
from tests.decoding.drafts import DTYPES
from tests.decoding.window import Slots

LIBRARY = files("tasc") / "libtasc_cuda.so"


def placed(tensor: torch.Tensor, offset: int) -> torch.Tensor:
    """A copy that lies ``offset`` bytes behind a position where 16 bytes can be loaded at once."""
    memory = torch.empty(tensor.nbytes + 32, dtype=torch.uint8)
    begin = -memory.data_ptr() % 16 + offset
    copy = memory[begin : begin + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
    return copy.copy_(tensor)


def logits(rng: np.random.Generator, shape: tuple[int, int], kind: str) -> np.ndarray:
    rows = rng.normal(0, 3, shape)
    if kind == "ties":
        return np.round(rows)
    if kind == "zeros":
        return np.where(rng.random(shape) < 0.5, 0.0, -0.0)
    if kind != "plain":
        rows[rng.random(shape) < 0.3] = float(kind)
        rows[rng.integers(0, len(rows))] = float(kind)
    return rows


def tree(rng: np.random.Generator, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    n = len(rows) - 1
    parents = np.array([rng.integers(-1, i) if i else -1 for i in range(n)], np.int32)
    if n and rng.random() < 0.1:
        parents[rng.integers(0, n)] = n  # to be refused
    likely = rows.float().nan_to_num(-torch.inf).argmax(-1).numpy()
    other = rng.integers(0, rows.shape[1], n)
    tokens = np.where(rng.random(n) < 0.7, likely[np.minimum(parents, n - 1) + 1], other)
    return torch.from_numpy(tokens.astype(np.int32)), torch.from_numpy(parents)


def native(name: str, rows: torch.Tensor, *arguments: object) -> np.ndarray | None:
    """What the CPU's kernel says; None where it refuses."""
    try:
        return ops.result(name, rows, *arguments)
    except InputError:
        return None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["plain", "ties", "zeros", "-inf", "nan", "inf"])
def test_verification(emulated, kind, dtype):
    rng = np.random.default_rng(5)
    for size, n in ((1, 0), (7, 5), (1001, 20), (4097, 64), (9000, 3)):
        rows = placed(torch.from_numpy(logits(rng, (n + 1, size), kind)).to(dtype), 4 * (n % 2))
        tokens, parents = tree(rng, rows)
        uniforms = torch.from_numpy(rng.random(n + 1))
        distributions = torch.from_numpy(rng.dirichlet([0.3] * size, n + 1).astype(np.float32))
        of = torch.from_numpy(np.where(rng.random(n + 1) < 0.3, -1, np.arange(n + 1)))
        of, best, scratch = of.int(), torch.empty(n + 1, dtype=torch.int64), torch.empty(size)
        distribution = (distributions, of, True, 0.8, uniforms)
        calls = {  # what the device gets besides rows and tree, and what the CPU does
            "verify_greedy": ((best,), ()),
            "verify_sampled": ((0.8, uniforms), (0.8, uniforms)),
            "verify_rejection": (
                (distributions, len(distributions), of, 1, 0.8, uniforms, scratch),
                distribution,
            ),
        }
        for name, (device, cpu) in calls.items():
            found = torch.full((n + 2,), -77, dtype=torch.int32)
            number = cuda.DTYPES[str(dtype)]
            emulated(name, rows, number, size, tokens, parents, n, *device, found)
            expected = native(name, rows, tokens, parents, *cpu)
            if expected is None:
                with pytest.raises(InputError):
                    ops.committed(found.numpy())
            else:
                assert found.tolist() == expected.tolist(), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("size", "d"), [(1, 3), (31, 8), (64, 200), (520, 33), (700, 64)])
def test_window(emulated, size, d, dtype):
    rng = np.random.default_rng(size)
    vocabulary = 390
    for offset in (0, 4):
        weight = placed(torch.randn(vocabulary, d).to(dtype), offset)
        buffer = placed(torch.zeros(size, d, dtype=dtype), offset)
        twin, found = Slots(vocabulary, size), Window(vocabulary, size)
        for count, unique in ((0, True), (600, False), (60, True), (1, True), (1500, True)):
            tokens = torch.from_numpy(rng.integers(-2, vocabulary + 2, count).astype(np.int32))
            twin.push(tokens.tolist(), unique)
            shape = (count, int(unique), vocabulary, size)
            emulated("window_push", tokens, *shape, *found._arrays)
            row_bytes = d * weight.element_size()
            emulated("window_gather", weight, row_bytes, found.ids, found.held, size, buffer)
            twin.check(found, weight, buffer)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8])
@pytest.mark.parametrize("dim", [1, 8, 129])
def test_compaction(emulated, dim, dtype):
    rng = np.random.default_rng(dim)
    for _ in range(20):
        outer, rows, heads, positions = rng.integers(1, 7, 4).tolist()
        moves = []
        for row in range(rows):
            to = int(rng.integers(0, positions))
            kept = np.flatnonzero(rng.random(positions) < 0.5)
            moves += [(row, int(k), to + i) for i, k in enumerate(kept[kept >= to])]
        table = np.array(moves, np.int32).reshape(-1, 3)
        shape = (outer, rows, heads, positions, dim)
        data = placed(torch.from_numpy(rng.integers(0, 250, shape)).to(dtype), 4 * (dim % 2))
        expected = data.clone()
        compact_reference(expected, table)
        blocks, size = outer * rows * heads, dim * data.element_size()
        given = torch.from_numpy(table)
        emulated("compact", data, blocks, rows, heads, positions, size, given, len(table))
        assert torch.equal(data, expected)


@pytest.mark.parametrize("n", [1, 5, 64, 65, 200])
def test_ancestors(emulated, n):
    rng = np.random.default_rng(n)
    parents = np.array([rng.integers(-1, i) if i else -1 for i in range(n)], np.int32)
    bits = torch.zeros(n, (n + 63) // 64, dtype=torch.int64)
    depths = torch.zeros(n, dtype=torch.int32)
    emulated("ancestor_bits", torch.from_numpy(parents), n, bits, depths)
    expected = ancestor_bits(parents)
    assert np.array_equal(bits.numpy().view(np.uint64), expected[0])
    assert np.array_equal(depths.numpy(), expected[1])


def test_the_library_is_built_where_nvcc_is():
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc: the CUDA library is not built")
    library = cuda.library()
    assert library is not None
    for name in (*cuda.SIGNATURES, "tasc_cuda_error_string"):
        assert getattr(library, name)


def test_it_shows_its_own_names_only_and_holds_code_for_both_architectures():
    if not LIBRARY.is_file() or shutil.which("nm") is None:
        pytest.skip("needs libtasc_cuda and nm")
    command = ["nm", "-D", "--defined-only", str(LIBRARY)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    names = {line.split()[-1] for line in listed.stdout.splitlines() if " T " in line}
    assert names == {*cuda.SIGNATURES, "tasc_cuda_error_string"}
    for architecture in (b"sm_80", b"sm_90"):
        assert architecture in LIBRARY.read_bytes()


def test_a_failed_launch_becomes_one_line():
    if cuda.library() is None:
        pytest.skip("libtasc_cuda was not built")
    with pytest.raises(UnavailableError, match="invalid argument"):
        cuda.call("tasc_verify_greedy", None, 7, 10, None, None, 0, None, None, None)


def test_a_stale_or_damaged_library_is_one_line_and_not_usable(tmp_path, monkeypatch):
    stale = tmp_path / "libtasc_cuda.so"
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to make a library with")
    source = tmp_path / "old.c"
    source.write_text("int tasc_ancestor_bits(void) { return 0; }\n")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", stale, source], check=True)
    damaged = tmp_path / "damaged.so"
    damaged.write_bytes(b"not a library")
    for path, what in ((stale, "tasc_verify_greedy"), (damaged, "damaged.so")):
        with pytest.raises(UnavailableError, match=f"(?s)stale or damaged.*{what}.*make install"):
            cuda.load(path)
    monkeypatch.setattr(cuda, "files", lambda _: tmp_path)
    cuda.library.cache_clear()
    try:
        found = cuda.state()
        assert examine(DoctorOptions())["kernels"]["cuda"] == found
    finally:
        cuda.library.cache_clear()
    assert found.startswith("not usable: ")
    assert "\n" not in found
