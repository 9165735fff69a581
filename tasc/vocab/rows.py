"""What a new row of a model's embeddings costs: parameters, and a share of every step."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RowCost:
    """One token more in the vocabulary of a model."""

    parameters: int  # one row, or two where the output has a matrix of its own
    step_share: float  # of a decoding step's multiplications


def row_cost(folder: Path, size: int) -> RowCost | None:
    """Look at the shapes of the weights beside a tokenizer of ``size`` ids; None without weights.

    A step multiplies by every weight but the input embedding, of which it looks up a row.
    """
    from safetensors import safe_open

    files = sorted(folder.glob("*.safetensors"))
    shapes: list[tuple[int, ...]] = []
    for file in files:
        with safe_open(file, framework="numpy") as weights:
            shapes += [tuple(weights.get_slice(name).get_shape()) for name in weights.keys()]  # noqa: SIM118 - it is no dictionary
    rows = [shape for shape in shapes if len(shape) == 2 and size <= shape[0] <= size + 1024]
    if not rows:
        return None
    others = sum(_product(shape) for shape in shapes if shape not in rows)
    width = rows[0][1]
    return RowCost(len(rows) * width, width / (others + _product(rows[0])))


def _product(shape: tuple[int, ...]) -> int:
    product = 1
    for length in shape:
        product *= length
    return product
