"""Write the task folders of ``make bench-heads`` below one folder.

``train/`` is a mixture: medical questions, arithmetic, summaries, notes of dialogues, and functions
of the Python standard library. ``test/`` has a folder per kind of prompt: the first turns of
Spec-Bench by category, HumanEval and MedQuAD.
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

CUT = 700  # characters of a training output, and then to the end of the sentence
ROLES = ("user", "input"), ("assistant", "output")
Row = dict[str, Any]


# Spec-Bench's categories as MicroSpec's table 2 names them; all others are of MT-Bench.
KINDS = {
    "translation": "MT",
    "rag": "RAG",
    "math_reasoning": "Math",
    "qa": "QA",
    "summarization": "Summ",
}


def main() -> None:
    """Write all folders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=Path("../shared/data"))
    parser.add_argument("--output", type=Path, default=Path("build/draft-heads"))
    parser.add_argument("--chat", action="store_true", help="write chats")
    arguments = parser.parse_args()
    write = partial(write_rows, chat=arguments.chat)
    tests = spec_bench(arguments.data_dir)
    for kind, name in (("Code", "human-eval"), ("medquad", "medquad")):
        examples = load(Source(path=str(arguments.data_dir / name)), "test").examples
        tests[kind] = [{"input": e.input, "output": e.output} for e in examples]
    for kind, rows in tests.items():
        write(arguments.output / "test" / kind / "test.jsonl", rows)
    tested = {row["input"] for rows in tests.values() for row in rows}
    rows = [row for row in training_rows(arguments.data_dir) if row["input"] not in tested]
    random.Random(0).shuffle(rows)
    write(arguments.output / "train" / "validation.jsonl", rows[:200])
    write(arguments.output / "train" / "train.jsonl", rows[200:])


def spec_bench(data: Path) -> dict[str, list[Row]]:
    """Return Spec-Bench's first turns by kind, with its own references as outputs."""
    found: dict[str, list[Row]] = {}
    for line in (data / "spec-bench" / "question.jsonl").read_text(encoding="utf-8").splitlines():
        question = json.loads(line)
        reference = (question.get("reference") or ["-"])[0]
        text = reference if isinstance(reference, str) else reference[0]
        row = {"input": question["turns"][0], "output": text or "-"}
        found.setdefault(KINDS.get(question["category"], "Conv"), []).append(row)
    return found


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
