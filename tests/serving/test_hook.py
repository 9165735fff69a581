"""The hook in vLLM's source: found, and its absence or change told in one line."""

import ast
import inspect
import os
from pathlib import Path

import pytest

from tasc.serving import hook
from tasc.serving.vllm import TascProposer

# The part of vLLM's source that the hook is recognised by, in a few lines.
CONFIG = "config/speculative.py"
V1 = "v1/worker/gpu_model_runner.py"
V2 = "v1/worker/gpu/spec_decode/__init__.py"
SOURCES = {
    CONFIG: 'SpeculativeMethod = Literal["ngram", "custom_class"]\n',
    V1: """
if spec_config.method == "ngram":
    drafts = self.drafter.propose(1, sampled_token_ids)
elif spec_config.method == "custom_class":
    assert isinstance(sampled_token_ids, list)
    drafts = cast(Any, self.drafter).propose(
        sampled_token_ids,
        self.input_batch.num_tokens_no_spec,
        self.input_batch.token_ids_cpu,
        slot_mappings=slot_mappings,
    )
""",
    V2: 'if speculative_config.method == "dflash":\n    pass\n',
}


def write(folder, changes=()):
    """Write the sources into ``folder``, as package ``vllm``, with the texts in ``changes``."""
    for name, text in (SOURCES | dict(changes)).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "__init__.py").write_text("")


def changed(file, old, new):
    assert old in SOURCES[file]
    return {file: SOURCES[file].replace(old, new)}


def test_the_known_hook_is_no_problem(tmp_path):
    write(tmp_path)
    assert hook.problem(tmp_path) == ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (changed(CONFIG, '"custom_class"', '"suffix"'), "has no speculative method 'custom_class'"),
        (changed(V1, "custom_class", "suffix"), "V1 of this vLLM does not call"),
        (changed(V1, "slot_mappings=", "slots="), "token_ids_cpu, slots=)"),
        (changed(V1, "        sampled_token_ids,\n", ""), "calls propose(num_tokens_no_spec, "),
        (changed(V2, "dflash", "custom_class"), "V2 of this vLLM loads drafters in an unknown way"),
    ],
)
def test_a_hook_that_is_gone_or_changed_is_told_with_what_to_install(tmp_path, changes, message):
    write(tmp_path, changes)
    found = hook.problem(tmp_path)
    assert message in found
    assert found.endswith(hook.INSTALL)
    assert "\n" not in found
    assert hook.problem(tmp_path / "nowhere")


def test_the_proposer_takes_what_the_hook_passes():
    parameters = inspect.signature(TascProposer.propose).parameters
    assert tuple(parameters)[1:4] == hook.ARGUMENTS
    assert any(p.kind is p.VAR_KEYWORD for p in parameters.values())


@pytest.mark.serving
def test_the_installed_vllm_has_the_hook():
    """TASC_VLLM may name the package folder of another version, unpacked from its wheel."""
    folder = Path(os.environ.get("TASC_VLLM") or hook.installed())
    if not folder.is_dir():
        pytest.skip("vLLM is not installed, and TASC_VLLM names no folder of it")
    assert hook.problem(folder) == ""
    tree = ast.parse((folder / "v1/spec_decode/custom_class_proposer.py").read_text("utf-8"))
    made = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert "user_class(vllm_config)" in made
