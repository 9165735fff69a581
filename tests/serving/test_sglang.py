"""The plug-in of SGLang against a stub of the interface that it was written for."""

import json
import sys
import types
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import tasc
from tasc.decoding.core.draft import Draft
from tasc.decoding.drafters import Resources, parse
from tasc.errors import InputError
from tasc.serving import sglang
from tasc.serving.drafts.trees import DraftTrees, padded
from tests.pico import TEXTS, make_base

NODES = 6


class NGRAMWorker:
    """As far as the plug-in knows SGLang's: it hands over the last tokens of each request."""

    def __init__(self, server_args, gpu_id, *, target_worker, **later):
        self.server_args, self.max_trie_depth, self.ngram_corpus = server_args, 18, None
        self.draft_token_num = server_args.speculative_num_draft_tokens

    def prepare(self, requests):
        self.ngram_corpus.synchronize()
        tokens = [(ids + output)[-self.max_trie_depth :] for ids, output in requests.values()]
        lengths = [len(ids) + len(output) for ids, output in requests.values()]
        ids, mask = self.ngram_corpus.batch_get([*requests], tokens, lengths)
        assert len(ids) == len(requests) * self.draft_token_num
        return ids, mask


class SpeculativeAlgorithm:
    registered: ClassVar = {}

    @classmethod
    def register(cls, name, *, supports_overlap, validate_server_args, spec_class):
        def decorate(factory):
            cls.registered[name] = (factory, validate_server_args, spec_class)
            return factory

        return decorate


class CustomSpecAlgo:
    def is_ngram(self):
        return False


@pytest.fixture
def engine(monkeypatch):
    held: dict[str, Any] = {
        "spec_info": {"SpeculativeAlgorithm": SpeculativeAlgorithm},
        "spec_registry": {"CustomSpecAlgo": CustomSpecAlgo},
        "ngram_worker": {"NGRAMWorker": NGRAMWorker},
    }
    for name in ("sglang", "sglang.srt", "sglang.srt.speculative"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    for name, values in held.items():
        module = types.ModuleType(f"sglang.srt.speculative.{name}")
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(SpeculativeAlgorithm, "registered", {})


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    base = make_base(tmp_path_factory.mktemp("model") / "base")
    task, out = tmp_path_factory.mktemp("task"), tmp_path_factory.mktemp("out")
    rows = [dict(zip(("input", "output"), text.split("\n"), strict=True)) for text in TEXTS]
    (task / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    tasc.export(tasc.ExportOptions(model=str(base), to="sglang", source=str(task))).save(out)
    return out


def arguments(folder, nodes=NODES):
    return types.SimpleNamespace(model_path=str(folder), speculative_num_draft_tokens=nodes)


def test_a_tree_is_padded_breadth_first_under_the_last_token():
    draft = Draft(np.array([5, 6, 7, 8], np.int32), np.array([-1, 0, -1, 2], np.int32))
    ids, mask = padded(draft, 9, NODES)
    assert ids.tolist() == [9, 5, 7, 6, 8, 0]
    assert mask.astype(int).tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 0, 1, 0, 0, 0],
        [1, 1, 0, 1, 0, 0],
        [1, 0, 1, 0, 1, 0],
        [1, 0, 0, 0, 0, 1],
    ]


def test_the_entry_point_registers_a_worker_that_hands_over_trees(engine, folder):
    EntryPoint("tasc", "tasc.serving.sglang:register", "sglang.srt.plugins").load()()
    factory, check, kind = SpeculativeAlgorithm.registered["TASC"]
    check(arguments(folder))
    assert kind().is_ngram()
    worker = factory(arguments(folder))(arguments(folder), 0, target_worker=None, dp_rank=0)
    tokenizer = tasc.tokenizer.loaded.load_tokenizer(str(folder))
    prompts, outputs = (
        [ids.tolist() for ids in tokenizer.encode([t.split("\n")[i] for t in TEXTS]).split()]
        for i in (0, 1)
    )
    drafted = []
    for step in (1, 2, 4):
        held = {
            f"r{i}": (p, o[:step]) for i, (p, o) in enumerate(zip(prompts, outputs, strict=True))
        }
        ids, mask = worker.prepare(held)
        trees = ids.reshape(-1, NODES), mask.reshape(-1, NODES, NODES)
        assert ids.dtype == np.int64
        for output, tree, seen in zip(outputs, *trees, strict=True):
            assert tree[0] == output[step - 1]
            assert seen.diagonal().all()
            assert seen[:, 0].all()
            assert not np.triu(seen, 1).any()
            drafted.append(output[step] in tree[1:])
    assert sum(drafted) >= 0.8 * len(drafted)


def test_trees_are_those_of_our_own_loop_whatever_requests_come_and_go():
    outputs = [np.arange(1, 30, dtype=np.int32), np.array([3, 9, 4, 9, 5], np.int32)]
    factory = parse("tasc-spec").prepare(Resources(outputs, 0))
    trees = DraftTrees(factory, NODES)
    drafter = factory()
    drafter.start(np.array([1, 2], np.int32))
    sequence = [1, 2]
    for token in (3, 4, 9, 5):
        sequence.append(token)
        drafter.observe(np.array([token], np.int32))
        expected = padded(drafter.draft(NODES - 1), token, NODES)
        ids, mask = trees.batch_get(["other", "a"], [[7, 8], sequence], [2, len(sequence)])
        assert ids[NODES:].tolist() == expected[0].tolist()
        assert mask[NODES * NODES :].tolist() == expected[1].reshape(-1).tolist()
    trees.batch_get(["other"], [[7, 8, 9]])
    assert list(trees.requests) == ["other"]
    trees.batch_put(["other"], [[7, 8, 9]])
    trees.erase_match_state(["other", "gone"])
    trees.reset()
    assert trees.requests == {}


def test_a_corpus_line_is_one_json_string(folder):
    lines = (folder / "corpus.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [text.split("\n")[1] for text in TEXTS]


def test_what_cannot_draft_is_refused_before_the_engine_starts(folder, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="holds no index"):
        sglang.check(arguments(tmp_path))
    with pytest.raises(InputError, match="give 2 or more"):
        sglang.check(arguments(folder, nodes=1))
    monkeypatch.setenv("TASC_INDEX", str(folder / "index"))
    sglang.check(arguments(folder))


def test_the_entry_point_is_declared():
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"] == {
        "sglang.srt.plugins": {"tasc": "tasc.serving.sglang:register"}
    }
