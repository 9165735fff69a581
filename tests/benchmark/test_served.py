"""What analyze says of drafts in an engine is what the one simulator counts."""

import numpy as np
import pytest

from tasc.data.corpus import load
from tasc.data.source import Source
from tasc.decoding.drafters import Resources, parse
from tasc.decoding.simulate import References, simulate
from tasc.decoding.steps import StepStats
from tests.benchmark.tasks import intents, write_task
from tests.cli import done, printed, refused


def test_accepted_length_by_both_definitions():
    """Two drafts of three steps, 5 of their 8 tokens accepted, one of these the end token."""
    steps = StepStats(
        tokens=np.array([9]),
        steps=np.array([3]),
        drafted=np.array([4, 0, 4]),
        accepted=np.array([2, 0, 2]),
        draft_seconds=0.0,
        ended=1,
    )
    assert steps.engine_counts == (2, 8, 5)
    assert steps.engine_accepted_length == 1 + 5 / 2
    assert steps.tokens_per_step == 8 / 3


def test_every_length_is_simulated_and_one_recommended(capsys, tmp_path, base, tokenizer):
    task = write_task(tmp_path / "task", train=intents(120), validation=intents(30, seed=1))
    asked = ("--tokenizer", base, "--serve", "vllm", "--speculative-tokens", "8,2,4")
    found = done(capsys, "analyze", task, *asked, "--output", tmp_path / "a")["serving"]
    assert [trial["setting"]["tree_size"] for trial in found["trials"]] == [2, 4, 8]
    known, held_out = (load(Source(str(task)), split) for split in ("train", "validation"))
    references = References.of(
        tokenizer, held_out.prompts, held_out.outputs, chains_only=True, drafts_first=False
    )
    outputs = tokenizer.encode(known.outputs).split()
    for trial in found["trials"]:
        method = parse(f"tasc-spec:width=1,budget={trial['setting']['tree_size']}")
        factory = method.prepare(Resources(outputs, tokenizer.eos_id))
        expected = simulate(factory, references, method.budget)
        counts = tuple(trial[name] for name in ("drafts", "drafted_tokens", "accepted_tokens"))
        assert counts == expected.engine_counts
        assert trial["tokens_per_step"] == expected.tokens_per_step
        assert trial["engine_accepted_length"] == 1 + counts[2] / counts[0]
    lengths = {t["setting"]["tree_size"]: t["tokens_per_step"] for t in found["trials"]}
    enough = [k for k, length in lengths.items() if length >= 0.98 * max(lengths.values())]
    assert found["speculative_tokens"] == min(enough)
    page = (tmp_path / "a" / "analysis.html").read_text()
    assert "Served by vllm" in page
    out = printed(capsys, "analyze", task, *asked, "--output", tmp_path / "b")
    assert f"Set --speculative-tokens {found['speculative_tokens']}" in " ".join(out.split())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--serve", "vllm"), "serve needs a tokenizer"),
        (("--serve", "vllm", "--tokenizer", "x", "--speculative-tokens", "4,a"), "speculative"),
        (("--serve", "vllm", "--tokenizer", "x", "--speculative-tokens", "0"), "from 1 to"),
        (("--serve", "tgi", "--tokenizer", "x"), "vllm"),
    ],
)
def test_wrong_options_are_told_in_one_line(capsys, tmp_path, options, told):
    task = write_task(tmp_path / "task", train=intents(20))
    assert told in refused(capsys, "analyze", task, *options)
