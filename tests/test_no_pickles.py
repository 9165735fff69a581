"""Nothing in the tree loads what can run code: a file from a stranger is data."""

import ast

import pytest

from tests.trees import from_root, parsed, python_files

FORBIDDEN_MODULES = {"pickle", "dill", "joblib", "cloudpickle", "shelve", "marshal"}
FORBIDDEN_CALLS = {"torch.load", "yaml.load", "yaml.full_load", "yaml.unsafe_load", "eval", "exec"}


def calls(tree):
    """Every call as (dotted name, its keywords that are constants)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            constants = {
                k.arg: k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)
            }
            yield ast.unparse(node.func), constants


@pytest.mark.parametrize("path", python_files("tasc", "cli", "benchmarks"), ids=from_root)
def test_nothing_is_loaded_that_can_run_code(path):
    tree = parsed(path)
    for node in ast.walk(tree):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not {name.split(".")[0] for name in names} & FORBIDDEN_MODULES
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "trust_remote_code":
                    assert ast.unparse(value) == "False"
    for name, constants in calls(tree):
        assert name not in FORBIDDEN_CALLS, name
        assert not constants.get("trust_remote_code"), name
        assert not constants.get("allow_pickle"), name
        assert constants.get("use_safetensors") is not False, name
        if name in {"np.load", "numpy.load"}:
            assert constants.get("allow_pickle") is False, "say allow_pickle=False"
