"""What a tokenizer's chat template makes of chats, beside ``apply_chat_template`` itself."""

import fcntl
import gc
import gzip
import itertools
import json
import os
import re
import weakref
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from transformers import AutoTokenizer

from tasc.data.chat import Turn
from tasc.errors import InputError
from tasc.tokenizer import chat, forked
from tasc.tokenizer.chat import ChatTemplate, source_of
from tasc.tokenizer.loaded import LoadedTokenizer
from tasc.training.core.batch import encode_examples
from tasc.training.folder import save_tokenizer
from tests.data.files import read

CHATML = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nBe helpful.<|im_end|>\n{% endif %}"
    "{% if tools %}{{ tools | tojson }}\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
    "{% elif m.role == 'assistant' %} {{ m.content | trim }} {{ eos_token }}"
    "{% else %}{{ raise_exception('no system role') }}{% endif %}{% endfor %}"
)
USER, ANSWER = {"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}


def with_template(tokenizer: LoadedTokenizer, template: object, **more: str) -> LoadedTokenizer:
    config = json.loads(tokenizer.files["tokenizer_config.json"])
    config |= {"chat_template": template, **more}
    return replace(tokenizer, files={"tokenizer_config.json": json.dumps(config).encode()})


@pytest.fixture(scope="module")
def qwen(real_tokenizer):
    return with_template(real_tokenizer("qwen2"), CHATML)


@pytest.fixture(scope="module")
def theirs(qwen, tmp_path_factory):
    """The same tokenizer as transformers has it."""
    folder = tmp_path_factory.mktemp("qwen")
    save_tokenizer(qwen, folder)
    return AutoTokenizer.from_pretrained(folder)


def chats(data_dir: Path, count: int) -> list[list[dict[str, str]]]:
    """Half with a system prompt, half without; of one, two and three turns."""
    with gzip.open(data_dir / "gsm8k" / "train.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    rows += map(json.loads, (data_dir / "mts-dialog" / "train.jsonl").read_text().splitlines())
    rows = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    made: list[list[dict[str, str]]] = []
    while sum(len(one) // 2 for one in made) < count:
        turns = [rows.pop() for _ in range(1 + len(made) % 3)]
        system = [{"role": "system", "content": "Answer in short."}] * (len(made) % 2)
        made.append(system)
        for row in turns:
            made[-1].append({"role": "user", "content": row["input"]})
            made[-1].append({"role": "assistant", "content": row["output"].strip()})
    return made


def written(tmp_path, messages, tokenizer):
    """The chats as a command's data, written by the tokenizer's chat template."""
    corpus = read(tmp_path, [{"messages": chat} for chat in messages])
    return ChatTemplate.of(tokenizer).apply(corpus)


def prompt_ids(tokenizer, messages):
    """What transformers has a model read before it answers."""
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)


def test_training_sees_the_tokens_that_apply_chat_template_makes(tmp_path, data_dir, qwen, theirs):
    given = chats(data_dir, 300)
    corpus = written(tmp_path, given, qwen)
    seen = encode_examples(qwen.ending(corpus.end), corpus.prompts, corpus.outputs, 10**6)
    end = theirs.convert_tokens_to_ids("<|im_end|>")
    row = 0
    for chat_ in given:
        for i, message in enumerate(chat_):
            if message["role"] != "assistant":
                continue
            whole = theirs.apply_chat_template(chat_[: i + 1], return_dict=False)
            prompt = prompt_ids(theirs, chat_[:i])
            begin, stop = seen.offsets[row : row + 2]
            tokens, targets = seen.tokens[begin:stop].tolist(), seen.targets[begin:stop]
            assert tokens == whole[: len(tokens)]
            assert theirs.decode(whole[len(tokens) :]) == "\n"  # behind the end of the turn
            assert (tokens[-1], targets[-1]) == (end, True)
            assert targets.tolist() == [k >= len(prompt) for k in range(len(tokens))]
            row += 1
    assert row == len(seen) >= 300


def test_an_answer_ends_with_the_token_that_the_template_writes(qwen):
    assert qwen.tokenizer.id_to_token(qwen.eos_id) == "<|endoftext|>"
    ending = qwen.ending(ChatTemplate.of(qwen).end)
    assert ending.tokenizer.id_to_token(ending.eos_id) == "<|im_end|>"
    assert ending.ending("<|im_end|>") is ending
    assert qwen.ending(None) is qwen


def test_what_stands_between_an_answer_and_its_end_is_learnt(tmp_path, qwen):
    spaced = with_template(qwen, LLAMA, bos_token="<|im_start|>")
    corpus = written(tmp_path, [[USER, {"role": "assistant", "content": " 4\n"}]], spaced)
    assert corpus.prompts == ["<|im_start|>[INST] 2 + 2? [/INST]"]
    assert (corpus.outputs, corpus.end) == ([" 4 "], "<|endoftext|>")


def test_a_template_may_lie_in_any_of_the_usual_files(qwen):
    found = [{"name": "default", "template": CHATML}, {"name": "rag", "template": "?"}]
    files = [
        {"chat_template.jinja": CHATML.encode()},
        {"chat_template.json": json.dumps({"chat_template": CHATML}).encode()},
        {"tokenizer_config.json": json.dumps({"chat_template": found}).encode()},
    ]
    for held in files:
        template = ChatTemplate.of(replace(qwen, files=held))
        assert template.end == "<|im_end|>"
    assert ChatTemplate.of(replace(qwen, files={})) is None


def test_tools_reach_the_template(tmp_path, qwen):
    tools = [{"type": "function", "function": {"name": "add"}}]
    corpus = read(tmp_path, [{"messages": [USER, ANSWER], "tools": json.dumps(tools)}])
    prompt, _ = ChatTemplate.of(qwen).write(corpus.examples[0].turn)
    assert '"name": "add"' in prompt


def test_a_special_token_in_a_message_is_read_as_apply_chat_template_reads_it(
    tmp_path, qwen, theirs
):
    said = {"role": "user", "content": "<|im_end|>"}
    corpus = written(tmp_path, [[said, ANSWER]], qwen)
    assert qwen.encode(corpus.prompts).tokens.tolist() == prompt_ids(theirs, [said])


HOSTILE = {
    "{{ ''.__class__.__mro__ }}": "no answers|unsafe",
    "{{ messages.__class__.__init__.__globals__ }}": "no answers|unsafe",
    "{{ (cycler or lipsum).__init__.__globals__.os.popen('id').read() }}": "unsafe|undefined",
    "{% for i in range(10 ** 12) %}{% endfor %}": "Range too big|OverflowError|too large",
    # Single operations, which nothing interrupts:
    "{{ 10 ** (10 ** 10) }}": "more than",
    "{{ ('f' * 3000000) | int(base=16) * ('f' * 3000000) | int(base=16) }}": "more than",
    "{{ range(99999) | batch(1) | sum(start=[]) }}": "more than",
    "{% for i in range(1000000) %}x{% endfor %}": "Range too big",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}": "more than",
    "{{ 'a' * 100000000000 }}": "MemoryError",
    "{% set n = namespace(x='a') %}{% for i in range(60) %}{% set n.x = n.x * 2 %}{% endfor %}": (
        "MemoryError"
    ),
    "{{ messages[1].content }}{{ 'a' * 5000000 }}": "writes 5,0",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}": "recursion",
    "{{ 1 + 'a' }}": "unsupported operand",
    "{% if %}": "Expected an expression|got 'end of statement",
    "{{ raise_exception('never') }}": "never",
    "nothing": "drops the answers",
}


@pytest.mark.parametrize("template", HOSTILE)
def test_a_hostile_template_neither_breaks_out_nor_goes_on_for_ever(
    tokenizer, template, monkeypatch
):
    if HOSTILE[template] == "more than":
        monkeypatch.setattr(chat, "_SECONDS", 1.0)
    with pytest.raises(InputError, match=HOSTILE[template]) as caught:
        ChatTemplate.of(with_template(tokenizer, template))
    assert "\n" not in str(caught.value)
    assert "pass --template" in str(caught.value)


def test_a_template_that_writes_an_answer_otherwise_is_refused(tmp_path, qwen):
    odd = CHATML.replace("{{ m.role }}", "{{ 'ai' if m.role == 'assistant' else m.role }}")
    with pytest.raises(InputError, match="does not write the answer after its prompt"):
        written(tmp_path, [[USER, ANSWER]], with_template(qwen, odd))


START = "<|im_start|>assistant\n"


def thinking(tokenizer, added, answers=""):
    """A template that ends its prompts with ``added``; ``answers`` writes those of an assistant."""
    text = CHATML.replace(START + "{% endif %}", f"{START}{{{{ {added!r} }}}}{{% endif %}}")
    assert text != CHATML
    return with_template(tokenizer, text.replace("{{ m.content }}", answers or "{{ m.content }}"))


# The last one drops reasoning, as templates do in earlier answers.
STRIPS = "{{ m.content.split('</think>')[-1] }}"
REASONS = (
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n{% endif %}"
    "{{ m.content }}"
)
OPEN, EMPTY = "<think>\n", "<think>\n\n</think>\n\n"


@pytest.mark.parametrize("added", [OPEN, EMPTY, "<think></think>", "tasc-", "[THINK]", " 4"])
def test_what_a_template_adds_to_prompts_alone_stays_in_the_prompt(tmp_path, qwen, theirs, added):
    changed = thinking(qwen, added)
    corpus = written(tmp_path, [[USER, ANSWER, USER, ANSWER]], changed)
    own = {"chat_template": source_of(changed), "tokenize": False}
    for prompt, before in zip(corpus.prompts, ([USER], [USER, ANSWER, USER]), strict=True):
        expected = theirs.apply_chat_template(before, add_generation_prompt=True, **own)
        assert prompt == expected
        assert prompt.endswith(added)
    assert (corpus.outputs, corpus.end) == (["4", "4"], "<|im_end|>")


def test_reasoning_after_an_opened_block_is_learnt(tmp_path, qwen):
    reasoned = {**ANSWER, "reasoning_content": "two and two"}
    given = written(tmp_path, [[USER, reasoned]], thinking(qwen, OPEN, REASONS))
    assert given.prompts[0].endswith(f"{START}<think>\n")
    assert given.outputs == ["two and two\n</think>\n4"]
    inside = {"role": "assistant", "content": "<think>\ntwo\n</think>\n4"}
    assert written(tmp_path, [[USER, inside]], thinking(qwen, OPEN)).outputs == ["two\n</think>\n4"]


def test_earlier_reasoning_that_a_template_drops_is_no_context(tmp_path, qwen):
    answers = "{% if loop.last %}{{ m.content }}{% else %}" + STRIPS + "{% endif %}"
    inside = {"role": "assistant", "content": "<think>\ntwo</think>4"}
    corpus = written(tmp_path, [[USER, inside, USER, inside]], thinking(qwen, OPEN, answers))
    assert corpus.outputs == ["two</think>4"] * 2
    assert f"{START}4<|im_end|>" in corpus.prompts[1]
    assert "two" not in corpus.prompts[1]


@pytest.mark.parametrize(
    ("added", "answers", "answer", "why"),
    [
        (OPEN, STRIPS, {"content": "<think>\ntwo</think>4"}, "not write the whole answer"),
        (EMPTY, "", {"content": "<think>\ntwo</think>4"}, "the answer begins with '<think>"),
        (OPEN, "", {"content": "<think>two</think>4"}, "the answer begins with '<think>two"),
        (
            OPEN,
            "",
            {"content": "4", "reasoning_content": "two"},
            "the answer has reasoning_content",
        ),
        ("[a]", "[b]{{ m.content }}", {"content": "4"}, "does not write the answer after its"),
    ],
)
def test_reasoning_that_cannot_follow_a_prompt_is_told_with_the_added_text(
    tmp_path, qwen, added, answers, answer, why
):
    with pytest.raises(InputError, match=re.escape(why)) as caught:
        written(tmp_path, [[USER, ANSWER | answer]], thinking(qwen, added, answers))
    told = str(caught.value)
    assert "\n" not in told
    assert repr(added) in told or added == "[a]"
    assert "--template" in told


CALL = {"function": {"name": "add", "arguments": {"a": 2}}}
INSIDE = {"content": "<think>\ntwo\n</think>\n\n4"}


@pytest.mark.parametrize(
    ("answers", "answer", "part"),
    [
        (STRIPS, INSIDE, "content"),
        ("{{ m.content.split('</think>')[-1].strip() }}", INSIDE, "content"),
        ("{{ m.content.split('\n')[0] }}", {"content": "4\nfour"}, "content"),
        ("{{ m.content | striptags }}", {"content": "<b>4</b> is it"}, "content"),
        ("", {"reasoning_content": "two"}, "reasoning_content"),
        ("", {"thinking": "two"}, "thinking"),
        ("", {"tool_calls": [CALL]}, "tool_calls"),
        (
            "{% if m.tool_calls %}{{ m.tool_calls[0].function.name }}"
            "{% else %}{{ m.content }}{% endif %}",
            {"content": "I call", "tool_calls": [CALL]},
            "content",
        ),
    ],
)
@pytest.mark.parametrize("added", ["", OPEN])
def test_an_answer_that_a_template_drops_in_part_is_refused(
    tmp_path, qwen, added, answers, answer, part
):
    changed = thinking(qwen, added, answers) if added or answers else qwen
    with pytest.raises(InputError) as caught:
        written(tmp_path, [[USER, ANSWER, USER, ANSWER | answer]], changed)
    told = str(caught.value)
    assert "\n" not in told
    assert "--template" in told
    if not added:
        assert f"drops all or part of the {part} of the answer" in told


@pytest.mark.parametrize("added", ["", OPEN])
def test_an_empty_reasoning_drops_nothing(tmp_path, qwen, added):
    changed = thinking(qwen, added) if added else qwen
    corpus = written(tmp_path, [[USER, ANSWER | {"reasoning_content": ""}]], changed)
    assert corpus.outputs == ["4"]


def test_an_answer_that_begins_with_the_end_of_its_prompt_is_whole(tmp_path, qwen):
    opened = CHATML.replace("{{ m.content }}", "{{ m.content | trim }}")
    changed = thinking(with_template(qwen, opened), OPEN)
    corpus = written(tmp_path, [[USER, ANSWER | INSIDE]], changed)
    assert corpus.prompts[0].endswith(OPEN)
    assert corpus.outputs == ["two\n</think>\n\n4"]
    assert ChatTemplate.of(changed).spacing_note([corpus]) == ""


def test_changed_white_space_of_answers_is_reported(tmp_path, qwen):
    trims = with_template(qwen, CHATML.replace("{{ m.content }}", "{{ m.content | trim }}"))
    corpus = written(tmp_path, [[USER, ANSWER, USER, {**ANSWER, "content": " 5\n"}]], trims)
    assert corpus.outputs == ["4", "5"]
    assert ChatTemplate.of(trims).spacing_note([corpus]).endswith("is learnt: 1 of train")
    unchanged = written(tmp_path, [[USER, {**ANSWER, "content": " 5\n"}]], qwen)
    assert unchanged.outputs == [" 5\n"]
    assert ChatTemplate.of(qwen).spacing_note([unchanged]) == ""


ODD_KEYS = [{**USER, "name": "a", "id": 1}, {**ANSWER, "mask": "no", "at": 1}, {**USER, "mask": 1}]


@pytest.mark.parametrize(
    ("template", "line"),
    [
        (CHATML, "so they have no effect: 'mask' (2 messages), 'at' (1 messages)"),
        (CHATML.replace("{{ m.content }}", "{{ m.content }}{{ m.mask }}"), ": 'at' (1 messages)"),
        (CHATML.replace("{{ m.content }}", "{{ m.content }}{{ m | tojson }}"), ""),
        (CHATML.replace("{{ m.content }}", "{{ m.content }}{{ m.at }}{{ m['mask'] }}"), ""),
    ],
)
def test_keys_that_the_template_does_not_read_are_reported(tmp_path, qwen, template, line):
    corpus = read(tmp_path, [{"messages": [*ODD_KEYS, ANSWER, USER, ANSWER]}])
    said = ChatTemplate.of(with_template(qwen, template)).unread_note([corpus])
    assert said.endswith(line)
    assert bool(said) == bool(line)


def test_few_of_many_unread_keys_are_listed(tmp_path, qwen):
    keys = {f"key {n}" + "y" * 99: n for n in range(30)}
    corpus = read(tmp_path, [{"messages": [USER, ANSWER | keys]}])
    said = ChatTemplate.of(qwen).unread_note([corpus])
    assert said.endswith(" (1 messages) and 22 more")
    assert len(said) < 700


DATED = "{{ strftime_now('%d %b %Y %H:%M:%S.%f') }}\n" + CHATML


def test_the_time_stands_still_in_a_run(tmp_path, qwen):
    dated, now = with_template(qwen, DATED), datetime(2026, 2, 3, 4, 5, 6, 7)
    corpus = read(tmp_path, [{"messages": [USER, ANSWER] * 3}])
    template = ChatTemplate.of(dated, now)
    prompts = template.apply(corpus).prompts
    assert {prompt.split("\n")[0] for prompt in prompts} == {"03 Feb 2026 04:05:06.000007"}
    assert template.date_note.endswith("2026-02-03 04:05, and prompts of another day differ")
    assert ChatTemplate.of(qwen).date_note == ""
    begun = datetime.now()
    found = datetime.strptime(
        ChatTemplate.of(dated).apply(corpus).prompts[0].split("\n")[0], "%d %b %Y %H:%M:%S.%f"
    )
    assert begun <= found <= datetime.now()


def test_a_sample_is_known_by_its_input_whatever_writes_its_prompt(tmp_path, qwen):
    corpus = read(tmp_path, [{"messages": [USER, ANSWER, USER, {**ANSWER, "content": "5"}]}])
    one, other = with_template(qwen, DATED), thinking(qwen, OPEN)
    for tokenizer in (one, other):
        found = ChatTemplate.of(tokenizer).apply(corpus)
        assert [e.id for e in found.examples] == [e.id for e in corpus.examples]
    assert len({e.id for e in corpus.examples}) == 2


def test_a_chat_that_the_template_refuses_is_told_in_one_line(tmp_path, qwen):
    system = [{"role": "system", "content": "x"}, USER, ANSWER]
    with pytest.raises(InputError, match="chat template: no system role; fix the chat template"):
        written(tmp_path, [system], with_template(qwen, LLAMA, bos_token="<|im_start|>"))


def test_all_chats_together_have_a_limit(tokenizer, monkeypatch):
    """Each call takes 0.25 s of this clock; 2 s are always allowed."""
    monkeypatch.setattr(forked, "_LEAST", 2.0)
    template = ChatTemplate.of(with_template(tokenizer, CHATML))
    template._forked._spent, template._forked._calls = 0.0, 0
    ticks = itertools.count(step=0.25)
    monkeypatch.setattr(forked, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    chats = (template.write(Turn((USER,), ANSWER)) for _ in range(500))
    with pytest.raises(InputError, match=r"2 s for 9 chats; fix the chat template"):
        list(chats)


def test_the_process_of_a_template_holds_no_lock_of_its_parent(tokenizer, tmp_path):
    with (tmp_path / "locked").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        template = ChatTemplate.of(with_template(tokenizer, CHATML))
        assert template.write(Turn((USER,), ANSWER))
    with (tmp_path / "locked").open("w") as second:
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_process_of_a_template_ends_with_it(tokenizer):
    template = ChatTemplate.of(with_template(tokenizer, CHATML))
    pid = template._forked.pid
    os.kill(pid, 0)
    del template
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_process_of_a_template_leaves_the_garbage_of_its_parent():
    """Another such process, in a cycle that the parent no longer refers to, is the parent's."""

    def collect(_):
        gc.collect()
        return "left" if garbage() else "ended"

    gc.disable()
    try:
        first = forked.Forked(str, 9.0, 2**30)
        cycle: list[object] = [first]
        cycle.append(cycle)
        garbage = weakref.ref(first)
        del first, cycle
        assert forked.Forked(collect, 9.0, 2**30)(None) == "left"
    finally:
        gc.enable()
