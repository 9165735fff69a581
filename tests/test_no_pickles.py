"""Nothing in the tree loads what can run code: a file from a stranger is data."""

import ast

import pytest

from tests.trees import from_root, parsed, python_files

FORBIDDEN_MODULES = {"pickle", "dill", "joblib", "cloudpickle", "shelve", "marshal"}
FORBIDDEN_CALLS = {"torch.load", "yaml.load", "yaml.full_load", "yaml.unsafe_load", "eval", "exec"}


@pytest.mark.parametrize("path", python_files("tasc", "cli", "benchmarks"), ids=from_root)
def test_nothing_is_loaded_that_can_run_code(path):
    for node in ast.walk(parsed(path)):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not {name.split(".")[0] for name in names} & FORBIDDEN_MODULES
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "trust_remote_code":
                    assert ast.unparse(value) == "False"
        if isinstance(node, ast.Call):
            name, pairs = ast.unparse(node.func), [(k.arg, k.value) for k in node.keywords]
            constants = {arg: v.value for arg, v in pairs if isinstance(v, ast.Constant)}
            assert name not in FORBIDDEN_CALLS, name
            assert not constants.get("trust_remote_code"), name
            assert not constants.get("allow_pickle"), name
            assert constants.get("use_safetensors") is not False, name
            if name in {"np.load", "numpy.load"}:
                assert constants.get("allow_pickle") is False, "say allow_pickle=False"
