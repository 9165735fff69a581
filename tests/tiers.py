"""Full products of parameters, of which the quick tier runs a part."""

import itertools
from collections.abc import Iterable

import pytest


def spread(names: str, *axes: Iterable[object], every: int) -> pytest.MarkDecorator:
    """Parametrize a test with the product of axes, of which the quick tier runs one in ``every``.

    The quick cases have indexes that add up to a multiple of ``every``. Each value of an axis then
    meets the values of the others in turn, and all of them if one of the axes has ``every`` values.
    A value that is a tuple is several parameters.
    """
    cases = []
    for case in itertools.product(*map(enumerate, axes)):
        values = [part for _, v in case for part in (v if isinstance(v, tuple) else (v,))]
        slow = sum(index for index, _ in case) % every
        cases.append(pytest.param(*values, marks=[pytest.mark.slow] if slow else []))
    return pytest.mark.parametrize(names, cases)
