"""The tree attention on its own."""

import torch

from tasc.models.attention import attend


def test_a_window_is_narrowed_where_the_queries_lie():
    query, key = torch.empty(1, 2, 3, 4, device="meta"), torch.empty(1, 2, 9, 4, device="meta")
    mask = torch.ones(1, 1, 3, 9, dtype=torch.bool, device="meta")
    out, _ = attend(torch.nn.Identity(), query, key, key, mask, sliding_window=4)
    assert out.shape == (1, 3, 2, 4)
