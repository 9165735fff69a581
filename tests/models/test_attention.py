"""The tree attention on its own."""

import pytest
import torch

from tasc.models.attention import attend


def eager_attention(query, key, value, mask, softcap=None, s_aux=None):
    """Attention as it is defined: head h asks the keys of head h // groups."""
    groups = query.shape[1] // key.shape[1]
    out = torch.zeros_like(query)
    for b, h in torch.cartesian_prod(torch.arange(len(query)), torch.arange(query.shape[1])):
        scores = query[b, h] @ key[b, h // groups].T * query.shape[-1] ** -0.5
        if softcap is not None:
            scores = torch.tanh(scores / softcap) * softcap
        scores[~mask[b, 0]] = -torch.inf
        if s_aux is not None:
            scores = torch.cat([scores, s_aux[h].expand(len(scores), 1)], dim=1)
        out[b, h] = scores.softmax(-1)[:, : key.shape[2]] @ value[b, h // groups]
    return out.transpose(1, 2)


@pytest.mark.parametrize("options", [{}, {"softcap": 2.0}, {"s_aux": torch.linspace(-1, 2, 6)}])
@pytest.mark.parametrize("heads", [1, 2, 6])
@pytest.mark.parametrize("queries", [1, 5, 16, 17, 40])
def test_groups_of_heads_share_keys_however_many_queries_there_are(queries, heads, options):
    make = torch.Generator().manual_seed(queries)
    query = torch.randn(2, queries, 6, 8, generator=make).transpose(1, 2)  # as models hand it over
    key, value = torch.randn(2, 2, heads, 50, 8, generator=make)
    mask = torch.rand(2, 1, queries, 50, generator=make) < 0.5
    mask[..., 0] = True
    found, _ = attend(torch.nn.Identity(), query, key, value, mask, **options)
    torch.testing.assert_close(found, eager_attention(query, key, value, mask, **options))


@pytest.mark.parametrize("queries", [1, 4, 30])
def test_without_a_mask_queries_see_what_lies_before_them(queries):
    make = torch.Generator().manual_seed(queries)
    query, key = torch.randn(1, 4, queries, 8, generator=make), torch.randn(1, 2, 30, 8)
    mask = torch.ones(queries, 30, dtype=torch.bool).tril(30 - queries)[None, None]
    found, _ = attend(torch.nn.Identity(), query, key, key, None)
    torch.testing.assert_close(found, eager_attention(query, key, key, mask))


def test_a_window_is_narrowed_where_the_queries_lie():
    query, key = torch.empty(1, 2, 3, 4, device="meta"), torch.empty(1, 2, 9, 4, device="meta")
    mask = torch.ones(1, 1, 3, 9, dtype=torch.bool, device="meta")
    out, _ = attend(torch.nn.Identity(), query, key, key, mask, sliding_window=4)
    assert out.shape == (1, 3, 2, 4)
