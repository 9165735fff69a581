"""Random Unicode through both exports of every kind of tokenizer.

TASC_ROUND_TRIPS=100000 makes it that many strings (``make round-trips``).
"""

import json
import os

import pytest

from tasc.errors import InputError
from tests.vocab.families import FAMILIES, TABLE, base_of, row, strings, survivors
from tests.vocab.marked import KINDS
from tests.vocab.tiny import PATTERNS, SEQUENCES

COUNT = int(os.environ.get("TASC_ROUND_TRIPS", "2000"))
BYTE_LEVEL = ["bytelevel", *PATTERNS, *SEQUENCES]
TEXT = strings(COUNT)


@pytest.mark.parametrize("export", ["pretoken", "added"])
@pytest.mark.parametrize("kind", [*BYTE_LEVEL, *KINDS])
def test_random_text_survives_wherever_it_survives_the_base_tokenizer(kind, export):
    try:
        whole, kept = survivors(base_of(kind), export, TEXT)
    except InputError as error:
        assert kind.endswith("always")
        assert "use --export pretoken" in str(error)  # noqa: PT017 - the other kinds do not raise
        return
    assert len(whole) > len(TEXT) / 20
    if kind in BYTE_LEVEL:
        assert len(whole) == len(TEXT)
    assert kept == whole


@pytest.mark.parametrize("family", FAMILIES)
def test_the_published_table_names_the_exports_that_work(family):
    published = json.loads(TABLE.read_text())["families"][family]
    measured = row(family, None, TEXT[:300])
    assert published["export"] == measured["export"]
    for row_, count in ((published, published["strings"]), (measured, 300)):
        assert row_["pretoken"] == row_["base"] > count / 20
        assert row_["added"] in (row_["base"], "refused")
