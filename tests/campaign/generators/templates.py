"""Chats under a stranger's template, and chats that no model was made for."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

from tests.campaign.mutate import dumps, mutate_bytes, mutate_json
from tests.campaign.seeds import Seeds

GOOD = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|endoftext|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
# Each is slow, large, or forbidden in a single expression, or in few of them.
PIECES = (
    "{{ 10 ** (10 ** N) }}",
    "{{ ('f' * 1N) | int(base=16) * ('f' * 1N) | int(base=16) }}",
    "{{ range(99999) | batch(1) | sum(start=[]) }}",
    "{{ 'a' * 1N }}",
    "{{ ('a' * 1N) | wordwrap(1) | length }}",
    "{{ ('a,' * 1N) | replace(',', 'b' * 999) | length }}",
    "{{ ('<' * 1N) | striptags | length }}",
    "{{ ('http://a ' * 1N) | urlize | length }}",
    "{{ ('%' ~ '9' * N ~ 'd') % 1 }}",
    "{{ '{0:>1N}'.format(1) | length }}",
    "{{ strftime_now('%Y' * 1N) | length }}",
    "{{ strftime_now('%1N0Y') | length }}",
    "{{ lipsum(n=1N) | length }}",
    "{{ messages | tojson(indent=1N) | length }}",
    "{% set n = namespace(x=[1]) %}{% for i in range(4N) %}{% set n.x = [n.x, n.x] %}{% endfor %}"
    "{{ n.x == n.x }}",
    "{% set n = namespace(x='a') %}{% for i in range(4N) %}{% set n.x = n.x * 2 %}{% endfor %}",
    "{% for i in range(9999N) %}{% for j in range(9999N) %}{% endfor %}{% endfor %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{{ ().__class__.__base__.__subclasses__() }}",
    "{{ cycler.__init__.__globals__.os.mkdir('ran') }}",
    "{{ messages.append(1) }}",
    "{% include '/etc/passwd' %}",
    "{{ raise_exception('\x1b[31mno\\n') }}",
    "{{ messages[N].content }}",
    "{% generation %}x{% endgeneration %}",
    "{{ undefined.a.b }}",
    "{% if %}",
    "{# ",
)
_SIZES = ("0", "1", "9", "00", "0000", "000000", "00000000", "99999999999")


def build(rng: random.Random, seeds: Seeds, sandbox: Path) -> list[object]:
    """Write a tokenizer with a template, and chats; return a command that renders them."""
    folder, data = sandbox / "tokenizer", sandbox / "chats.jsonl"
    shutil.copytree(seeds.tokenizer, folder)
    _template(rng, folder)
    rows = [_chat(rng) for _ in range(rng.choice((1, 4, 60)))]
    data.write_text("".join(dumps(row) + "\n" for row in rows))
    if rng.random() < 0.1:
        data.write_bytes(mutate_bytes(rng, data.read_bytes()))
    command = rng.choice(("index", "analyze", "augment"))
    few = ["--new-tokens", "auto"] if command == "augment" else []
    return [command, data, "--tokenizer", folder, *few]


def _template(rng: random.Random, folder: Path) -> None:
    text = GOOD
    if rng.random() < 0.7:
        piece = rng.choice(PIECES).replace("N", rng.choice(_SIZES))
        at = rng.choice((0, len(text), text.index("{{ m.content")))
        text = text[:at] + piece + text[at:]
    found: Any = text
    if rng.random() < 0.1:
        found = rng.choice(([text], [{"name": "default", "template": text}], {"a": text}, 1, [{}]))
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"chat_template": found}))
    if rng.random() < 0.2:
        (folder / "chat_template.jinja").write_text(text)


def _chat(rng: random.Random) -> dict[str, Any]:
    """Return a chat: of a few messages, of very many, of long ones, or of none that fit."""
    turns = rng.choice((1, 1, 2, 3, 150, 200, 201, 1500))
    long = rng.choice((1, 1, 1, 20_000 if turns < 9 else 40))
    roles = ("user", "assistant", "system", "tool", "", "\x00")
    messages: list[Any] = []
    for i in range(turns):
        messages.append({"role": "user", "content": f"say {i} " * long})
        messages.append({"role": "assistant", "content": f"said {i} " * long})
    if rng.random() < 0.2:
        rng.choice(messages)["role"] = rng.choice(roles)
    row: dict[str, Any] = {"messages": messages}
    if rng.random() < 0.1:
        row = mutate_json(rng, row) if turns < 9 else {"messages": messages[1:]}
    if rng.random() < 0.1 and isinstance(row, dict):
        row["tools"] = rng.choice((None, [], "[", [{"type": "function"}], {"a": 1}))
    return row
