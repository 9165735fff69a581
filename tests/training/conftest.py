import pytest

from tests import pico
from tests.training.samples import phrases


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return pico.make_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def augmented(base, tmp_path_factory):
    return phrases(base, tmp_path_factory.mktemp("augmented"))
