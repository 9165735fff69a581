from collections.abc import Callable, Sequence
from typing import TypedDict, overload

import numpy as np
import numpy.typing as npt

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
UInt8 = npt.NDArray[np.uint8]
UInt64 = npt.NDArray[np.uint64]
UInt32 = npt.NDArray[np.uint32]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]

class MergeOutcome(TypedDict):
    # ids, new_id, string, frequency, inner, pcs, tokens, h2, h1
    merges: list[tuple[tuple[int, ...], int, bytes, int, int, float, int, float, float]]
    # ids, new_id, frequency, inner, after
    aliases: list[tuple[tuple[int, ...], int, int, int, int]]
    tokens_before: int
    h2_before: float
    h1_before: float
    rejected: int
    refused: int

def write_counts(tokens: Int32, offsets: Int64, weights: Int64, path: str) -> None: ...
def merge_runs(
    paths: list[str], top: int
) -> tuple[list[tuple[Int64, Int64, Int32, Int64]], Int32, Int64]: ...
def join_runs(paths: list[str], path: str) -> None: ...
def merge_search(
    tokens: Int32,
    offsets: Int64,
    weights: Int64,
    strings: UInt8,
    string_ends: Int64,
    special: Int32,
    boundaries: UInt8,
    budget: int,
    n_max: int,
    alpha: float,
    conditional: bool,
    min_frequency: int,
    min_reward: int,
    admit: Callable[[bytes], bool] | None,
    tick: Callable[[int], None] | None,
) -> MergeOutcome: ...

class Acceptance:
    def estimate(self, tokens: Int32, parents: Int32, probabilities: Float32 | None) -> Float64: ...
    def worthwhile(
        self,
        tokens: Int32,
        parents: Int32,
        probabilities: Float32 | None,
        extra: Float64,
        pace: float,
        per_node: float,
        limit: float,
    ) -> Int32: ...
    def learn(
        self, tokens: Int32, parents: Int32, probabilities: Float32 | None, committed: Int32
    ) -> None: ...

class NgramIndex:
    n_max: int
    end: int
    discount: float
    strength: float
    min_count: int
    mark: bool
    tokens: int
    contexts: int
    entries: int
    vocabulary: int
    block: UInt64
    @overload
    def __init__(
        self,
        tokens: Int32,
        offsets: Int64,
        end: int,
        n_max: int,
        discount: float,
        strength: float,
        min_count: int,
        mark: bool,
    ) -> None: ...
    @overload
    def __init__(self, block: UInt64) -> None: ...
    def text(self) -> Int32: ...  # a copy: mark, output, end, one output after another
    def check_integrity(self) -> str | None: ...

def pack_text(tokens: Int32, offsets: Int64, end: int, mark: bool) -> UInt8: ...  # 3 bytes a token
def place_entries(entries: UInt64, starts: UInt32, before: UInt32) -> None: ...

class NgramBuilder:
    vocabulary: int  # V
    position_bytes: int
    def __init__(
        self,
        text: UInt8,
        end: int,
        n_max: int,
        discount: float,
        strength: float,
        min_count: int,
        mark: bool,
    ) -> None: ...
    def borders(self, positions: int) -> list[int]: ...
    # entries (E,), contexts (C,), and (V + 1,) how many longer contexts end with each token
    def root(self) -> tuple[UInt64, UInt64, UInt32]: ...
    def piece(self, begin: int, end: int) -> tuple[UInt64, UInt64, UInt32]: ...
    def starts(self, made: UInt32) -> UInt32: ...
    def header(self, contexts: int, entries: int) -> UInt64: ...

class NgramTable:
    def __init__(self, n_max: int) -> None: ...
    def clear(self) -> None: ...
    def add_output(self, tokens: Int32) -> None: ...
    def __len__(self) -> int: ...
    def check_integrity(self) -> str | None: ...

class SourceWeights:
    def __init__(
        self, corpora: int, memory: bool, prompt: bool, lambda_: float, gain: float, match: bool
    ) -> None: ...
    def weight(self, source: int, bucket: int) -> float: ...
    @staticmethod
    def bucket(length: int) -> int: ...

class RecycledLogits:
    def __init__(self, rows: int, renewal: float) -> None: ...
    def add_tree(
        self,
        recent: Int32,
        tokens: Int32,
        parents: Int32,
        successors: Int32,
        probabilities: Float32,
    ) -> None: ...
    def row(self, recent: Int32) -> list[tuple[int, float]]: ...
    def __len__(self) -> int: ...
    def check_integrity(self) -> str | None: ...

class NgramDrafter:
    def __init__(
        self,
        corpora: list[NgramIndex],
        memory: NgramTable | None,
        weights: SourceWeights | None,
        prompt: bool,
        n_max: int,
        lambda_: float,
        gain: float,
        discount: float,
        width: int,
        min_probability: float,
        match: bool,
        fallback: bool,
        end: int,
    ) -> None: ...
    def recycle(self, logits: RecycledLogits) -> None: ...
    def guess(self, tokens: Int32, parents: Int32, probabilities: Float32) -> None: ...
    def start(self, prompt: Int32, mark: bool) -> None: ...
    def observe(self, tokens: Int32) -> None: ...
    def defer_updates(self) -> None: ...
    def apply_updates(self) -> None: ...
    def draft(self, budget: int) -> tuple[Int32, Int32, Float32]: ...
    def distribution(self) -> list[tuple[int, float]]: ...
    def sources(self) -> UInt8: ...
    def take_output(self) -> Int32: ...
    def check_integrity(self) -> str | None: ...

class NgramTrie:
    def __init__(self, n: int, prefix: int) -> None: ...
    def build(self, context: Int32) -> None: ...
    def draft(
        self, sequence: Int32, num_draft: int, budget: int
    ) -> tuple[Int32, Int32, Float32]: ...
    def __len__(self) -> int: ...

class SuffixArray:
    tokens: int
    def __init__(self, tokens: Int32, offsets: Int64, end: int) -> None: ...
    def check_integrity(self) -> str | None: ...

class SuffixDrafter:
    def __init__(
        self, corpus: SuffixArray, longest: int, min_probability: float, width: int, end: int
    ) -> None: ...
    def start(self, prompt: Int32) -> None: ...
    def observe(self, tokens: Int32) -> None: ...
    def draft(self, budget: int) -> tuple[Int32, Int32, Float32]: ...

class LookupDrafter:
    def __init__(self, n_max: int, chain: int, end: int) -> None: ...
    def start(self, prompt: Int32) -> None: ...
    def observe(self, tokens: Int32) -> None: ...
    def draft(self, budget: int) -> tuple[Int32, Int32, Float32]: ...

# Drafters of one kind, a step of each.
_Natives = list[NgramDrafter] | list[SuffixDrafter] | list[LookupDrafter]

def sequence_tails(
    tokens: Int32, rows: list[int], lengths: list[int], most: int
) -> list[bytes]: ...

class ThreadPool:
    def __init__(self, size: int, spin: int = 0) -> None: ...  # microseconds

class PackedMatrix:
    # (n, k), as float32 or the bits of bfloat16, and (n,)
    @overload
    def __init__(self, weights: Rows) -> None: ...
    @overload
    def __init__(self, weights: Rows, bias: Float32) -> None: ...
    # (n, k) int8 and bits of bfloat16 (n, blocks of 32); half: bfloat16 inputs and outputs
    @overload
    def __init__(self, weights: Rows, scales: Rows, half: bool) -> None: ...
    @overload
    def __init__(self, weights: Rows, scales: Rows, half: bool, bias: Float32) -> None: ...
    # addresses of contiguous arrays
    def multiply(self, x: int, rows: int, out: int, pool: ThreadPool | None) -> None: ...
    def unpack(self, weights: int) -> None: ...

# Addresses of query, key, value, out, mask and sinks (0 = none); shape (B, H, H_kv, q, k, d);
# strides of the first three dimensions of query, key, value and, of sequence and query, mask.
def attend(
    data: tuple[int, ...],
    shape: tuple[int, ...],
    strides: tuple[tuple[int, ...], ...],
    half: bool,
    scale: float,
    softcap: float,
    pool: ThreadPool | None,
) -> None: ...
def dense_instructions() -> str: ...
def use_dense_instructions(name: str) -> bool: ...

class Decoder:
    # of each layer: matrices of q, k, v, o, gate, up and down; addresses of the norms before
    # attention and MLP, of queries and keys, and after attention and MLP (0 = none)
    def __init__(
        self,
        matrices: list[tuple[PackedMatrix, ...]],
        norms: list[tuple[int, ...]],
        epsilon: float,
        d: int,
        scale: float,
        plus_one: bool,
        gelu: bool,
    ) -> None: ...
    # x: address; tokens of each sequence; of each layer, addresses of cos and sin, which have
    # `turns` rows; data: address of the cache; its sequences and capacity, and the first of each to
    # write; of each layer, address of the mask (0 = causal)
    def run(
        self,
        x: int,
        sizes: Sequence[int],
        rotations: list[tuple[int, int]],
        turns: int,
        data: int,
        cache: tuple[int, ...],
        masks: list[int],
        pool: ThreadPool | None,
    ) -> None: ...

class CertifiedHead:
    def __init__(self, matrix: PackedMatrix) -> None: ...
    # addresses of states (rows, width), ids (rows, k) int32, logits (rows, k) float32, and totals
    # (rows,) float32 (0 = none); id -1: no certificate; returns the number of panels multiplied
    def top(self, data: tuple[int, ...], rows: int, k: int, pool: ThreadPool | None) -> int: ...

def step_chains(
    drafters: _Natives,
    tokens: Sequence[Sequence[int]],
    budgets: Sequence[int],
    least: float,
    pool: ThreadPool | None,
) -> list[list[int]]: ...
def ancestor_bits(parents: Int32) -> tuple[UInt64, Int32]: ...
def tree_inputs(parents: Int32) -> tuple[UInt8, Int64]: ...
def greedy_path(tokens: Int32, parents: Int32, best: Int32) -> Int32: ...

# rows (n + 1, V) as float32, or the bits of float16 (half) or bfloat16; result (n + 2,)
Rows = npt.NDArray[np.float32] | npt.NDArray[np.uint16]

def top_softmax(rows: Rows, half: bool, k: int, scale: float) -> tuple[Int32, Float32]: ...
def top_ids(rows: Rows, half: bool, of: Int64, k: int) -> Int32: ...
def verify_greedy(rows: Rows, half: bool, tokens: Int32, parents: Int32) -> Int32: ...
def verify_sampled(
    rows: Rows, half: bool, tokens: Int32, parents: Int32, temperature: float, uniforms: Float64
) -> Int32: ...
def verify_rejection(
    rows: Rows,
    half: bool,
    tokens: Int32,
    parents: Int32,
    distributions: Float32,
    distribution_of: Int32,
    replacement: bool,
    temperature: float,
    uniforms: Float64,
) -> Int32: ...
def compact(data: UInt8, moves: Int32) -> None: ...

class WordCounter:
    def __init__(self, prefix: str, batch: int) -> None: ...
    def add_texts(self, texts: list[str]) -> int: ...
    def add_words(self, words: list[str]) -> None: ...
    def leave(self) -> tuple[UInt8, Int64, Int32, Int32, list[str]]: ...
    def take(
        self, letters: UInt8, ends: Int64, first: Int32, last: Int32, runs: list[str]
    ) -> None: ...
    def finish(self) -> list[str]: ...
    def word(self, id: int) -> bytes: ...

def window_push(
    tokens: Int32,
    unique: bool,
    ring: Int32,
    counts: Int32,
    slots: Int32,
    marks: Int32,
    ids: Int32,
    free: Int32,
    state: Int32,
) -> None: ...
def window_gather(weight: UInt8, ids: Int32, held: Int32, buffer: UInt8) -> int: ...
