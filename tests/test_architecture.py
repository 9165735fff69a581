"""Imports point down: cli → commands → serving, benchmark → decoding, training → vocab → data."""

import ast
import json
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tasc.decoding.drafters import DRAFTERS
from tests.cli import assert_loads_no_torch, modules_after
from tests.pico import make_tokenizer
from tests.recipes import ROWS, write
from tests.trees import ROOT, from_root, parsed, python_files

FLOOR = {"tasc.errors", "tasc.progress", "tasc.environment", "tasc.visible", "tasc.__version__"}
BACKEND = {"tasc.backend", "tasc._native"}
TEXTS = BACKEND | {"tasc.files", "tasc.data", "tasc.tokenizer", "tasc.schema"}
OPTIONS = TEXTS | {"tasc.options", "tasc.report", "tasc.execution"}
MODELS = OPTIONS | {"tasc.analysis", "tasc.vocab", "tasc.models"}
RUNS = MODELS | {"tasc.training", "tasc.decoding"}
# layer -> what it may import of tasc besides itself and the floor
MAY_IMPORT = {
    "tasc/errors.py": set(),
    "tasc/progress.py": set(),
    "tasc/environment.py": set(),
    "tasc/visible.py": set(),
    "tasc/report": set(),
    "tasc/files": set(),
    "tasc/backend": {"tasc._native"},
    "tasc/execution": {"tasc.files"},
    "tasc/data": {"tasc.files"},
    "tasc/tokenizer": {"tasc.files", "tasc.data"},
    "tasc/schema": set(),
    "tasc/options": {"tasc.files", "tasc.data", "tasc.execution", "tasc.schema"},
    "tasc/analysis": OPTIONS,
    "tasc/vocab": OPTIONS | {"tasc.analysis"},
    "tasc/models": TEXTS,
    "tasc/training": MODELS,
    "tasc/decoding": MODELS,
    "tasc/benchmark": RUNS,
    "tasc/serving": RUNS,
    "tasc/commands": RUNS | {"tasc.benchmark", "tasc.serving"},
    "cli": RUNS | {"tasc.benchmark", "tasc.serving", "tasc.commands"},
}
TORCH_ROOMS = ("models", "training", "decoding", "benchmark", "serving")
# Inner folders, each of which knows those before it and none behind it.
INNER = {
    "tasc/decoding": ["core", "verify", "drafters"],
    "tasc/training": ["core", "adapters", "objectives"],
    "tasc/vocab": ["measure", "exports", "search"],
}
MOST_FILES = 20
MOST_PARAMETERS = 8


@cache
def imports(path: Path) -> list[tuple[str, bool]]:
    """Absolute imports of a file as dotted names, and whether each stands at module level."""
    tree = parsed(path)
    top = {id(node) for node in tree.body}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(a.name, id(node) in top) for a in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found += [(f"{node.module}.{a.name}", id(node) in top) for a in node.names]
    return found


def folder_of(name: str) -> Path:
    """The folder below ``ROOT`` in which what is imported by ``name`` stands."""
    folder = ROOT
    for part in name.split("."):
        if not (folder / part).is_dir():
            break
        folder = folder / part
    return folder


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_imports_point_down(layer):
    own = layer.removesuffix(".py").replace("/", ".")
    allowed = MAY_IMPORT[layer] | FLOOR | {own}
    files = python_files(layer)
    assert files
    for path in files:
        for name, _ in imports(path):
            if name.split(".")[0] in {"tasc", "tasc_cli"}:
                assert any(name == a or name.startswith(a + ".") for a in allowed), (
                    f"{from_root(path)} imports {name}, which lies above it"
                )


def test_no_two_folders_import_each_other():
    """All folders, nested ones too, wherever the imports stand; the layers above say the rest."""
    tasc, edges = ROOT / "tasc", dict[tuple[Path, Path], str]()
    for path in python_files("tasc"):
        for name, _ in imports(path) if path != tasc / "__init__.py" else ():
            if name.startswith("tasc."):
                edges[path.parent, folder_of(name)] = f"{from_root(path)} imports {name}"
    table = tasc / "decoding" / "drafters"
    for entry in DRAFTERS.values():  # imported by name, when they are used
        module = f"tasc.decoding.drafters.{entry.path.partition(':')[0]}"
        edges[table, folder_of(module)] = f"the table of drafters names {module}"
    pairs = [f"{why}; {edges[b, a]}" for (a, b), why in edges.items() if a < b and (b, a) in edges]
    assert not pairs, "\n".join(pairs)


@pytest.mark.parametrize("room", INNER)
def test_inner_folders_do_not_import_what_stands_on_them(room):
    own = room.replace("/", ".")
    parts = [f"{own}.{name}" for name in INNER[room]]
    assert {p.parent.name for p in (ROOT / room).glob("*/__init__.py")} == set(INNER[room])
    for i, part in enumerate(parts):
        for path in python_files(part.replace(".", "/")):
            for name, _ in imports(path):
                if name == own or name.startswith(own + "."):
                    assert any(name.startswith(p + ".") for p in parts[: i + 1]), (path, name)


def test_no_folder_holds_more_files_than_one_takes_in_at_a_glance():
    for top in ("tasc", "cli", "benchmarks"):
        files = Counter(path.parent for path in python_files(top))
        assert not {folder: count for folder, count in files.items() if count > MOST_FILES}


# A signature that others laid down: transformers' attention.
GIVEN = {"attend"}


@pytest.mark.parametrize("path", python_files("tasc"), ids=from_root)
def test_no_function_takes_more_than_eight_parameters(path):
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef) and node.name not in GIVEN:
            taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            own = [a.arg for a in taken if a.arg not in ("self", "cls")]
            assert len(own) <= MOST_PARAMETERS, f"{node.name} takes {own}"


def test_every_room_has_its_rule():
    rooms = {f"tasc/{p.name}" for p in (ROOT / "tasc").iterdir() if (p / "__init__.py").is_file()}
    modules = {f"tasc/{p.name}" for p in (ROOT / "tasc").glob("*.py")} - {"tasc/__init__.py"}
    assert rooms | modules <= set(MAY_IMPORT)


@pytest.mark.parametrize("layer", [layer for layer in MAY_IMPORT if layer.startswith("tasc/")])
def test_torch_stays_in_its_rooms_and_nobody_prints(layer):
    for path in python_files(layer):
        for name, at_top in imports(path):
            if at_top and name.split(".")[0] in {"torch", "transformers", "peft", "accelerate"}:
                assert path.relative_to(ROOT / "tasc").parts[0] in TORCH_ROOMS, f"{path}: {name}"
            assert name.split(".")[0] not in {"typer", "rich", "pickle"}, f"{path}: {name}"


def test_help_loads_nothing_heavy():
    loaded = modules_after("from tasc_cli.main import app")
    assert not loaded & {"torch", "transformers", "datasets", "numpy", "pydantic"}


def test_analyze_without_a_model_needs_no_torch(tmp_path):
    task, tokenizer = write(tmp_path / "train.jsonl", ROWS), make_tokenizer(tmp_path / "tokenizer")
    given = ("analyze", task, "--tokenizer", tokenizer, "--grid", "--output", tmp_path / "out")
    assert_loads_no_torch(*given)
    assert json.loads((tmp_path / "out" / "analysis.json").read_text())["verdict"]["choice"]


def test_nothing_called_cli_or_kernels_is_installed():
    import importlib.metadata

    try:
        files = importlib.metadata.files("tasc-lm") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("tasc-lm is not installed: it is imported from the source tree")
    assert not {f.parts[0] for f in files} & {"cli", "kernels", "tests", "recipes"}


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _imported(path: Path, modules: dict[str, Path]) -> set[str]:
    """Modules that a file imports anywhere, in functions too, but not for types alone."""
    tree = parsed(path)
    unused = {id(n) for node in ast.walk(tree) if _is_for_types(node) for n in ast.walk(node)}
    names = set()
    for node in ast.walk(tree):
        if id(node) not in unused and isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif id(node) not in unused and isinstance(node, ast.ImportFrom):
            own = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= (own & modules.keys()) or {f"{node.module}"}
    return names & modules.keys()


def test_no_modules_import_each_other_not_even_inside_functions():
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in python_files("tasc")
        if path.name != "__init__.py"
    }
    graph = {name: _imported(path, modules) for name, path in modules.items()}
    TopologicalSorter(graph).prepare()  # raises an error that has the cycle, if there is one
