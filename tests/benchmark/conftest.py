import json

import pytest

from tests.benchmark.tasks import ROWS, write_task


@pytest.fixture
def task(tmp_path):
    return write_task(tmp_path, test=ROWS)


@pytest.fixture
def save(tmp_path):
    """A function that saves results as ``NAME/results.json`` and returns the folder."""

    def save(name, results):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "results.json").write_text(json.dumps(results.to_dict()))
        return str(tmp_path / name)

    return save
