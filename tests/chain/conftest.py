"""The links of a chain of commands on a real subset, each made once, for all workers."""

import contextlib
import gzip
import os
from itertools import islice
from pathlib import Path

import pytest
from tasc_cli.main import main

from tests.letters import make_writer, write_letters
from tests.seeds import SEED

LIMIT, ROWS = 300, 1000


@pytest.fixture(scope="session")
def massive(data_dir, once):
    with once("rows") as folder:
        (folder / "massive-en").mkdir(exist_ok=True)
        for name in ("test.jsonl", "validation.jsonl", "train.jsonl.gz"):
            path = data_dir / "massive-en" / name
            with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as rows:
                few = b"".join(islice(rows, ROWS))
            (folder / "massive-en" / name.removesuffix(".gz")).write_bytes(few)
    return folder / "massive-en"


@pytest.fixture(scope="session")
def chain(once, massive):
    """A function that runs a command on ``massive`` into a folder of a name, and returns that."""

    def run(name: str, command: str, *options: object) -> Path:
        with once(f"chain-{name}") as folder:
            if not (folder / name).is_dir():
                make(folder / name, command, *options)
        return folder / name

    def make(output: Path, command: str, *options: object) -> None:
        arguments = [command, massive, *options, "--seed", SEED, "--output", output, "--json"]
        with (
            Path(os.devnull).open("w") as nowhere,
            contextlib.redirect_stdout(nowhere),
            contextlib.suppress(SystemExit),
        ):
            main([str(a) for a in arguments])
        assert output.is_dir()

    return run


@pytest.fixture(scope="session")
def base(chain):
    return chain("base", "base", "--preset", "pico", "--epochs", 2, "--limit", LIMIT)


@pytest.fixture(scope="session")
def augmented(chain, base):
    return chain("augmented", "augment", "--tokenizer", base, "--budget", 40, "--limit", LIMIT)


@pytest.fixture(scope="session")
def plain(chain, base):
    learn = ("--epochs", 1, "--limit", LIMIT, "--merge")
    return chain("plain", "finetune", "--model", base, *learn)


@pytest.fixture(scope="session")
def tasc_ft(chain, base, augmented):
    learn = ("--epochs", 1, "--limit", LIMIT, "--merge")
    return chain("ft", "finetune", "--model", base, "--augmented", augmented, *learn)


@pytest.fixture(scope="session")
def letters(tmp_path_factory):
    return write_letters(tmp_path_factory.mktemp("letters"))


@pytest.fixture(scope="session")
def writer(tmp_path_factory):
    """A model that writes the outputs of ``letters``."""
    return make_writer(tmp_path_factory.mktemp("writer"))


@pytest.fixture(scope="session")
def unsure_writer(tmp_path_factory):
    """A model that, sampled, often writes something else."""
    return make_writer(tmp_path_factory.mktemp("unsure"), sure=5.0)
