import pytest

from tasc.training.train import Start
from tests import pico
from tests.training.samples import ROWS, phrases


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return pico.make_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def augmented(base, tmp_path_factory):
    return phrases(base, tmp_path_factory.mktemp("augmented"))


@pytest.fixture
def start(base, augmented):
    return Start(str(base), str(augmented), ROWS)
