"""An index that is replaced while the engine runs."""

import shutil

import numpy as np
import pytest

from tasc.decoding.drafters.ngram.index import FILE, build_index, save_index
from tasc.decoding.drafters.ngram.options import Counts
from tasc.serving.drafts.tasks import EVERY
from tasc.serving.vllm import TascProposer
from tasc.tokenizer.loaded import load_tokenizer
from tests.pico import make_tokenizer
from tests.serving.test_vllm import configured


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def folder(tmp_path):
    make_tokenizer(tmp_path / "model")
    write(tmp_path, "index", [20, 21, 22])
    return tmp_path


def write(folder, name, output):
    tokenizer = load_tokenizer(str(folder / "model"))
    index = build_index([np.array(output, np.int32)] * 9, tokenizer.eos_id, Counts())
    (folder / name).mkdir(parents=True)
    save_index(index, tokenizer, folder / name)


def replace(folder, output):
    """Replace the first index by another, in one move."""
    write(folder, "other", output)
    (folder / "other" / FILE).replace(folder / "index" / FILE)
    (folder / "other").rmdir()


def proposer(folder):
    made = TascProposer(configured(folder, {"index": str(folder / "index"), "guard": False}))
    made.tasks.clock = Clock()
    made.tasks.next = EVERY
    return made


def asked(made, row, new=1):
    tokens = np.zeros((1, 400), np.int32)
    tokens[0, : len(row)] = row
    return made.propose([row[-new:]], np.array([len(row)]), tokens)[0]


def test_requests_draft_from_the_index_that_stands_there_when_they_begin(folder):
    made = proposer(folder)
    assert asked(made, [5, 6, 20])[:2] == [21, 22]
    replace(folder, [20, 31, 32])
    assert asked(made, [7, 6, 20])[:2] == [21, 22]  # within a second, files are not checked
    made.tasks.clock.seconds = EVERY
    assert asked(made, [5, 6, 20, 21])[:2] == [22, made.proposer.end]  # under way: as it began
    assert asked(made, [8, 6, 20])[:2] == [31, 32]
    end = made.proposer.end
    assert asked(made, [5, 6, 20, 21, 22, end], 2) == []
    assert asked(made, [9, 6, 20])[:2] == [31, 32]  # and not with what the old index left behind


def test_an_index_that_cannot_be_used_changes_nothing(folder, caplog):
    made = proposer(folder)
    (folder / "half").write_bytes(b"half")
    (folder / "half").replace(folder / "index" / FILE)
    for second in (1, 2, 3):
        made.tasks.clock.seconds = second * EVERY
        assert asked(made, [second, 6, 20])[:2] == [21, 22]
    assert [record.message.count("is not used") for record in caplog.records] == [1]
    shutil.rmtree(folder / "index")  # gone: what was read is still held
    made.tasks.clock.seconds = 4 * EVERY
    assert asked(made, [4, 6, 20])[:2] == [21, 22]
    write(folder, "index", [20, 31, 32])
    made.tasks.clock.seconds = 5 * EVERY
    assert asked(made, [5, 6, 20])[:2] == [31, 32]


def test_files_are_looked_at_once_a_second(folder):
    made, found = proposer(folder).tasks, []
    replace(folder, [20, 31, 32])
    for seconds in (0.5, 0.9, 1.0, 1.5, 2.0, 9.0):
        made.clock.seconds = seconds
        found.append(made.poll())
    assert found == [False, False, True, False, False, False]


def test_a_new_index_keeps_what_was_learnt(folder):
    made = proposer(folder)
    end = made.proposer.end
    assert asked(made, [5, 6, 40])[:2] != [41, 42]
    asked(made, [5, 6, 40, 41, 42, end], 3)
    replace(folder, [20, 31, 32])
    made.tasks.clock.seconds = EVERY
    assert asked(made, [9, 6, 40])[:2] == [41, 42]
    assert asked(made, [9, 6, 20])[:2] == [31, 32]
