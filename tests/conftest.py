"""What tests of every layer share: threads, caches, and the folder of real data sets."""

import fcntl
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from tasc.models.target import Target
    from tasc.tokenizer.loaded import LoadedTokenizer


def pytest_configure(config: pytest.Config) -> None:
    """Give every worker one thread and a cache of its own, before tests import what asks for them.

    Processes that tests start inherit both.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Else every process compiles all that it imports, torch and transformers too: half a minute.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    folder = tempfile.TemporaryDirectory(prefix="tasc-tests-")
    config.add_cleanup(folder.cleanup)
    os.environ["XDG_CACHE_HOME"] = folder.name

    # How long an example takes says how loaded the machine is.
    hypothesis.settings.register_profile(
        "tasc", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("tasc")


def pytest_report_header() -> list[str]:
    variables = ("TASC_TEST_SEED", "TASC_TEST_ORDER", "TASC_CPU_CAPABILITY", "ATEN_CPU_CAPABILITY")
    return [f"{name}={os.environ[name]}" for name in variables if name in os.environ]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Shuffle the files, and the tests in each, by the seed in $TASC_TEST_ORDER."""
    if seed := os.environ.get("TASC_TEST_ORDER"):
        draw = Random(seed)  # every worker must find the same order
        files = {path: draw.random() for path in dict.fromkeys(item.path for item in items)}
        items.sort(key=lambda item: (files[item.path], draw.random()))


@pytest.fixture
def heard() -> Iterator[None]:
    """SIGINT interrupts, also where the tests were started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.pico import make_base

    return make_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> "LoadedTokenizer":
    from tasc.tokenizer.loaded import load_tokenizer
    from tests.pico import make_tokenizer

    return load_tokenizer(str(make_tokenizer(tmp_path_factory.mktemp("tokenizer"))))


@pytest.fixture(scope="module")
def target() -> "Target":
    from tasc.models.target import Target
    from tests.pico import build_model

    return Target(build_model())


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of TASC's cache, which is of this test alone and not there yet."""
    (tmp_path / "cache").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/tasc"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data sets: $TASC_DATA, or shared/data beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("TASC_DATA") or beside)
    if folder.is_dir():
        return folder
    reason = f"no data sets at {folder}: set TASC_DATA to their folder"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def real_tokenizer(data_dir: Path) -> Callable[[str], "LoadedTokenizer"]:
    """A function that loads a published tokenizer by its name, each once."""
    from tasc.tokenizer.loaded import load_tokenizer

    return cache(lambda name: load_tokenizer(str(data_dir / "tokenizers" / name)))


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], AbstractContextManager[Path]]:
    """A function from a name to a folder that all workers share, held by one worker at a time."""
    top = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        top = top.parent

    @contextmanager
    def held(name: str) -> Iterator[Path]:
        (top / name).mkdir(exist_ok=True)
        with (top / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # ends when the file is closed
            yield top / name

    return held
