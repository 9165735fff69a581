import json

import pytest

from tests.benchmark import loads


@pytest.fixture
def task(tmp_path):
    path = tmp_path / "test.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in loads.ROWS))
    return tmp_path
