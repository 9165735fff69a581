"""Indexes of one task or of several: files that come and go, routes, and what is learnt."""

import logging
import os
import shutil
import stat
from dataclasses import dataclass

import numpy as np
import pytest

from tasc.decoding.drafters.ngram.index import FILE, build_index, save_index
from tasc.decoding.drafters.ngram.options import Counts
from tasc.errors import InputError
from tasc.serving.drafts.state import MOST_BYTES, memory_of, read_state, write_state
from tasc.serving.drafts.tasks import EVERY, WINDOW
from tasc.serving.vllm import TascProposer
from tasc.tokenizer.loaded import load_tokenizer
from tests.pico import make_tokenizer
from tests.serving.engine import Engine, configured

TASKS = ("jazz", "mail", "sql")
PROMPT = [5, 6, 20]  # of every task: only the tag tells them apart


@dataclass
class Clock:
    """Seconds that pass when told."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


def write(folder, name, output):
    tokenizer = load_tokenizer(str(folder / "model"))
    index = build_index([np.array(output, np.int32)] * 9, tokenizer.eos_id, Counts())
    (folder / name).mkdir(parents=True)
    save_index(index, tokenizer, folder / name)


def replace(folder, output):
    write(folder, "other", output)
    (folder / "other" / FILE).replace(folder / "index" / FILE)
    (folder / "other").rmdir()


@pytest.fixture
def folder(tmp_path):
    """An index, and three tasks whose outputs begin with token 20, too, and go on differently."""
    make_tokenizer(tmp_path / "model")
    write(tmp_path, "index", [20, 21, 22])
    for i, name in enumerate(TASKS):
        write(tmp_path, f"tasks/{name}", own(i))
    (tmp_path / "tasks" / "sql.txt").write_text("say it again\n")
    return tmp_path


def own(task):
    return [20, *range(30 + 10 * task, 36 + 10 * task)]


def proposer(folder, **more):
    options = {"tasks": str(folder / "tasks"), "guard": False, **more}
    made = TascProposer(configured(folder / "model", options))
    made.tasks.clock, made.tasks.next = Clock(), EVERY
    return made


def watching(folder):
    return proposer(folder, index=str(folder / "index"), tasks=None)


def asked(made, row, new=1):
    tokens = np.zeros((1, 400), np.int32)
    tokens[0, : len(row)] = row
    return made.propose([row[-new:]], np.array([len(row)]), tokens)[0]


def prompt_of(made, tag):
    return [*made.tokenizer.encode([tag]).tokens.tolist(), *PROMPT]


def test_drafts_of_three_tasks_never_mix(folder):
    """Requests of all tasks side by side, in moving rows; each drafts its own tokens only."""
    made = proposer(folder)
    engine = Engine(made.proposer, 6, np.random.default_rng(0))
    prompts = [prompt_of(made, tag)[:-1] for tag in ("[jazz]", "[mail]", "say it again")]
    inner = made.proposer.propose

    def propose(new, lengths, tokens):
        chains = inner(new, lengths, tokens)
        for row, chain in enumerate(chains):
            task = next(i for i, p in enumerate(prompts) if tokens[row, : len(p)].tolist() == p)
            others = {token for i in range(3) if i != task for token in own(i)[1:]}
            assert not others & set(chain)
        return chains

    made.proposer.propose = propose
    engine.run((prompts[i % 3], [*own(i % 3), made.proposer.end]) for i in range(60))
    assert engine.counts.accepted > 200
    learnt = [memory_of(made.tasks.factories[name]).outputs for name in TASKS]
    assert [{tuple(o.tolist()) for o in outputs} for outputs in learnt] == [
        {(*own(i), made.proposer.end)} for i in range(3)
    ]
    assert not memory_of(made.tasks.factories[""]).outputs


def test_a_prompt_belongs_to_its_first_tag_near_the_beginning(folder, tokenizer):
    made = proposer(folder)

    def route(text):
        return made.tasks.route(tokenizer.encode([text]).tokens)

    assert route("[mail] and [jazz]") == "mail"
    assert route("play [jazz] [mail]") == "jazz"
    assert route("say it again") == "sql"
    assert route("[sql]") == route("") == route("mail") == ""  # sql.txt replaces the name
    assert route("play " * (2 * WINDOW) + "[mail]") == ""
    strange = np.array([-1, 2**31 - 1, *prompt_of(made, "[mail]")], np.int32)
    assert made.tasks.route(strange) == "mail"


def test_tasks_come_and_go_while_the_engine_runs(folder, caplog):
    caplog.set_level(logging.INFO, "vllm.tasc")
    made = proposer(folder)
    assert "MB of private memory" in caplog.text
    news = prompt_of(made, "[news]")
    assert asked(made, news)[:2] != [71, 72]
    write(folder, "tasks/news", [20, 71, 72, 73])
    (folder / "tasks" / "half").mkdir()
    (folder / "tasks" / "half" / "index.tasc").write_bytes(b"TASCNGRM")
    made.tasks.clock.seconds = EVERY
    assert asked(made, [7, *news])[:2] == [71, 72]
    assert sum("half: the new index is not used" in r.message for r in caplog.records) == 1
    running = [8, *news]
    assert asked(made, running)[:2] == [71, 72]
    shutil.rmtree(folder / "tasks" / "news")
    made.tasks.clock.seconds = 2 * EVERY
    assert asked(made, [9, *news])[:2] != [71, 72]
    assert asked(made, [*running, 71])[:2] == [72, 73]  # under way: as it began
    assert asked(made, prompt_of(made, "[mail]"))[:2] == own(1)[1:3]
    assert "task news was removed" in caplog.text


def test_two_tasks_cannot_have_one_tag(folder):
    (folder / "tasks" / "mail.txt").write_text("say it again")
    with pytest.raises(InputError, match=r"sql.txt: the tag 'say it again' is .* another task's"):
        proposer(folder)
    with pytest.raises(InputError, match=r"tasks: .* is not a folder"):
        proposer(folder, tasks=str(folder / "nowhere"))


def test_a_refused_task_is_used_once_its_tag_is_free(folder):
    made = proposer(folder)
    jazz = prompt_of(made, "[jazz]")
    write(folder, "tasks/swing", [20, 71, 72])
    (folder / "tasks" / "swing.txt").write_text("[jazz]")
    made.tasks.clock.seconds = EVERY
    assert asked(made, jazz)[:2] == own(0)[1:3]
    shutil.rmtree(folder / "tasks" / "jazz")
    made.tasks.clock.seconds = 2 * EVERY
    assert asked(made, [7, *jazz])[:2] == [71, 72]


def test_shared_indexes_draft_the_same(folder):
    made, shared = proposer(folder), proposer(folder, share=True)
    for tag in ("[jazz]", "[mail]"):
        row = prompt_of(made, tag)
        assert asked(shared, row) == asked(made, row) != []


def finish(made, tag, output):
    row = [*prompt_of(made, tag), *output, made.proposer.end]
    asked(made, row[: len(row) - len(output)])
    asked(made, row, len(output))


def test_what_was_learnt_survives_a_restart(folder):
    file = folder / "learnt.safetensors"
    made = proposer(folder, state=str(file))
    made.state.clock = Clock()
    finish(made, "[mail]", [80, 81, 82])
    assert not file.exists()  # at most once a minute
    finish(made, "[jazz]", [90, 91, 92])
    made.state.clock.seconds = 1e9
    asked(made, PROMPT)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []
    again = proposer(folder, state=str(file))
    row = [*prompt_of(made, "[mail]"), 80]
    assert asked(again, row)[:2] == [81, 82]
    assert asked(proposer(folder), row)[:2] != [81, 82]
    assert asked(again, [*prompt_of(made, "[jazz]"), 80])[:2] != [81, 82]
    written = file.read_bytes()
    again.state.finish()
    assert file.read_bytes() == written  # nothing new
    finish(again, "[mail]", [80, 83, 84])
    again.state.finish()  # as at the end of the process
    found = read_state(file, again.tokenizer)
    assert [len(found[name]) for name in ("", *TASKS)] == [0, 1, 2, 0]


def test_a_full_disk_does_not_end_the_engine(folder, caplog):
    made = proposer(folder, state=str(folder / "nowhere" / "learnt"))
    finish(made, "[mail]", [80, 81, 82])
    made.state.finish()
    assert "cannot write" in caplog.text
    (folder / "nowhere").mkdir()
    made.state.finish()  # tried again
    assert (folder / "nowhere" / "learnt").exists()


@pytest.mark.parametrize("how", ["other", "cut", "lengths", "ids", "large", "method"])
def test_a_state_that_cannot_be_used_is_told_in_one_line(folder, tokenizer, how):
    file, more = folder / "learnt", {}
    write_state(file, {"mail": [np.array([5, 6], np.int32)]}, tokenizer)
    content = file.read_bytes()
    if how == "other":
        file.write_bytes(content.replace(tokenizer.identity.hex().encode(), b"0" * 64))
    elif how == "cut":
        file.write_bytes(content[:-3])
    elif how == "lengths":
        file.write_bytes(content[:-12] + content[-12:].replace(b"\2\0\0\0", b"\3\0\0\0"))
    elif how == "ids":
        file.write_bytes(content.replace(b"\6\0\0\0", b"\x40\1\0\0"))
    elif how == "large":
        os.truncate(file, MOST_BYTES + 1)
    else:
        more = {"method": "prompt-lookup"}
    with pytest.raises(InputError, match=r"^state: .*: (delete it|leave state out)") as caught:
        proposer(folder, state=str(file), **more)
    assert "\n" not in str(caught.value)


def test_requests_draft_from_the_index_that_stands_there_when_they_begin(folder):
    made = watching(folder)
    assert asked(made, [5, 6, 20])[:2] == [21, 22]
    replace(folder, [20, 31, 32])
    assert asked(made, [7, 6, 20])[:2] == [21, 22]  # within a second, files are not checked
    made.tasks.clock.seconds = EVERY
    assert asked(made, [5, 6, 20, 21]) == [22]  # under way: as it began
    assert asked(made, [8, 6, 20])[:2] == [31, 32]
    end = made.proposer.end
    assert asked(made, [5, 6, 20, 21, 22, end], 2) == []
    assert asked(made, [9, 6, 20])[:2] == [31, 32]  # and not with what the old index left behind


def test_an_index_that_cannot_be_used_changes_nothing(folder, caplog):
    made = watching(folder)
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


def test_a_tag_that_cannot_be_read_changes_nothing(folder, caplog):
    made = proposer(folder)
    before = dict(made.tasks.tags)
    (folder / "tasks" / "sql.txt").write_bytes("[überweisung]".encode("latin-1"))
    made.tasks.clock.seconds = EVERY
    assert not made.tasks.poll()
    assert "is not UTF-8" in caplog.text
    assert made.tasks.tags == before


def test_files_are_looked_at_once_a_second(folder):
    made, found = watching(folder).tasks, []
    for k, seconds in enumerate((0.5, 0.9, 1.0, 1.5, 2.0, 9.0)):
        replace(folder, [20, 31, 32 + k])
        made.clock.seconds = seconds
        found.append(made.poll())
    assert found == [False, False, True, False, True, True]


def test_a_new_index_keeps_what_was_learnt(folder):
    made = watching(folder)
    end = made.proposer.end
    assert asked(made, [5, 6, 40])[:2] != [41, 42]
    asked(made, [5, 6, 40, 41, 42, end], 3)
    replace(folder, [20, 31, 32])
    made.tasks.clock.seconds = EVERY
    assert asked(made, [9, 6, 40])[:2] == [41, 42]
    assert asked(made, [9, 6, 20])[:2] == [31, 32]
