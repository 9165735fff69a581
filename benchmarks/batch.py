"""Compare the decoding loop with transformers' generate, in tokens per second by batch size.

All methods decode the same prompts greedily and take turns, so that drift of the machine affects
all alike. transformers gets batches padded on the left. Outputs end at the end token, as for users,
and in a second run at one length, so that only the loops differ.
Usage: python -m benchmarks.batch --model FOLDER --data-dir DIR [--json FILE]
"""

from typing import Any

import numpy as np
import torch

from benchmarks.figures import publish, task_script
from benchmarks.task import Task, compare
from tasc.models.load import load_model
from tasc.models.target import Target

METHODS = ("ar", "tasc-spec")


def main() -> None:
    """Measure and print the figures as JSON."""
    parser = task_script(__doc__, prompts=32, new_tokens=48)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    options = parser.parse_args()
    task = Task.load(options.model, options.data_dir, options.prompts, dtype=options.dtype)
    theirs = load_model(options.model, dtype=options.dtype)
    target = Target(task.model)
    figures: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "dtype": options.dtype,
        "parameters": task.model.num_parameters(),
        "prompts": len(task.prompts),
        "prompt_tokens": {"mean": float(np.mean([len(p) for p in task.prompts]))},
        "new_tokens": options.new_tokens,
    }
    for name, end in (("to_the_end_token", task.end), ("to_one_length", None)):
        limits = {"new_tokens": options.new_tokens, "end": end}
        ways = task.ways(target, theirs, METHODS, options.batch, limits)
        figures[name] = compare(ways, options.repeats)
    publish(figures, options.json)


if __name__ == "__main__":
    main()
