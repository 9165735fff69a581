"""Write the two folders of ``make bench-heads`` below one folder.

``train/`` is a mixture: medical questions, arithmetic, summaries, notes of dialogues, and functions
of the Python standard library. ``test/`` has the first turns of Spec-Bench, HumanEval and MedQuAD,
in random order, with the kind of each prompt as its output (see ``benchmarks.kinds``).
"""

import argparse
import ast
import json
import random
import sysconfig
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tasc.data.corpus import load
from tasc.data.source import Source

PER_KIND = 80  # prompts, as in Spec-Bench
CUT = 700  # characters of a training output, and then to the end of the sentence
ROLES = ("user", "input"), ("assistant", "output")
Row = dict[str, Any]


def main() -> None:
    """Write all folders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=Path("../shared/data"))
    parser.add_argument("--output", type=Path, default=Path("build/draft-heads"))
    parser.add_argument("--chat", action="store_true", help="write chats")
    arguments = parser.parse_args()
    write = partial(write_rows, chat=arguments.chat)
    tests = list(questions(arguments.data_dir))
    random.Random(0).shuffle(tests)
    write(arguments.output / "test" / "test.jsonl", tests)
    tested = {row["input"] for row in tests}
    rows = [row for row in training_rows(arguments.data_dir) if row["input"] not in tested]
    random.Random(0).shuffle(rows)
    write(arguments.output / "train" / "validation.jsonl", rows[:200])
    write(arguments.output / "train" / "train.jsonl", rows[200:])


def questions(data: Path) -> Iterator[Row]:
    """Yield the prompts of all tests and their kinds."""
    for line in (data / "spec-bench" / "question.jsonl").read_text(encoding="utf-8").splitlines():
        question = json.loads(line)
        yield {"input": question["turns"][0], "output": question["category"]}
    for name in ("human-eval", "medquad"):
        for example in load(Source(path=str(data / name)), "test").examples[:PER_KIND]:
            yield {"input": example.input, "output": name}


def training_rows(data: Path) -> Iterator[Row]:
    """Yield prompts and outputs of about CUT characters at most."""
    for name in ("medquad", "gsm8k", "mts-dialog", "scitldr"):
        for example in load(Source(path=str(data / name)), "train").examples:
            yield {"input": example.input, "output": cut(example.output)}
    yield from functions()


def cut(text: str) -> str:
    """Return ``text`` to the end of the sentence around CUT."""
    end = text.find(". ", CUT)
    return text if end < 0 else text[: end + 1]


def functions() -> Iterator[Row]:
    """Yield functions of the standard library: signature and docstring, then the body."""
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        source = path.read_text(encoding="utf-8", errors="replace")
        lines = source.splitlines(keepends=True)
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) and len(node.body) > 1:
                begin, body = node.lineno - 1, node.body[0].end_lineno or node.lineno
                text = "".join(lines[body : node.end_lineno])
                if 0 < len(text) < 2 * CUT:
                    yield {"input": "".join(lines[begin:body]).rstrip("\n"), "output": text}


def write_rows(path: Path, rows: list[Row], *, chat: bool) -> None:
    """Write rows as JSONL, with ``chat`` as chats of a question and its answer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if chat:
        said = ([{"role": role, "content": row[name]} for role, name in ROLES] for row in rows)
        rows = [{"messages": messages} for messages in said]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
