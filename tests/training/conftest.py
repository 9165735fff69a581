import pytest

from tasc.training.core.batch import encode_examples
from tasc.training.finetuned import Start
from tests.training.samples import ROWS, corpus, phrases


@pytest.fixture(scope="module")
def augmented(base, tmp_path_factory):
    return phrases(base, tmp_path_factory.mktemp("augmented"))


@pytest.fixture(scope="module")
def start(base, augmented):
    return Start(str(base), str(augmented), ROWS)


@pytest.fixture(scope="module")
def data(tokenizer):
    made = corpus()
    return encode_examples(tokenizer, made.prompts, made.outputs, 100)
