"""Attention of short rows by products, and by PyTorch's kernel, against the formula and autograd in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from zorba_core.engine.estimators.attention import FlashAttention, ShortAttention, causal_attention

TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-13}
SHAPES = [(3, 2, 5, 8), (1, 4, 32, 24), (7, 1, 2, 3), (2, 3, 17, 16)]  # (B, K, L, D)


def joint(shape, dtype=torch.float64) -> torch.Tensor:
    """Queries, keys and values side by side, (P, 3 H)."""
    rows, heads, length, size = shape
    return torch.randn(rows * length, 3 * heads * size, generator=torch.Generator().manual_seed(1), dtype=dtype)


def heads_of(joint_PO: torch.Tensor, shape) -> list[torch.Tensor]:
    """(B, K, L, D) each, views as a block makes them."""
    rows, heads, length, size = shape
    return [part.view(rows, length, heads, size).transpose(1, 2) for part in joint_PO.split(heads * size, dim=1)]


def by_formula(joint_PO: torch.Tensor, shape) -> torch.Tensor:
    """(P, H)"""
    (q, k, v), length = heads_of(joint_PO, shape), shape[2]
    scores = (q @ k.transpose(2, 3) / shape[3] ** 0.5).masked_fill(torch.ones(length, length).triu(1) > 0, -torch.inf)
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2).flatten(0, 1)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", [ShortAttention, lambda qkv: FlashAttention(qkv, is_causal=True)])
def test_attention_and_its_gradients_are_the_formulas(kind, shape, dtype):
    given = joint(shape).requires_grad_()
    expected = by_formula(given, shape)
    dy = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    (gradient,) = torch.autograd.grad(expected, given, dy)
    plain = given.detach().to(dtype)
    before = plain.clone()
    attention = kind(heads_of(plain, shape))
    back = attention.back(dy.to(dtype))
    assert attention.out().dtype == back.dtype == dtype
    torch.testing.assert_close(attention.out().double(), expected.detach(), rtol=0, atol=3 * TOLERANCE[dtype])
    torch.testing.assert_close(back.double(), gradient, rtol=0, atol=10 * TOLERANCE[dtype])
    assert torch.equal(plain, before)


def test_a_query_sees_nothing_behind_it():
    """Not even what is infinite there."""
    shape, seen = (2, 2, 6, 4), 3
    given = joint(shape, torch.float32)
    changed = given.clone().view(2, 6, -1)
    changed[:, seen:] = 1e6
    outs = [ShortAttention(heads_of(each, shape)).out().view(2, 6, -1) for each in (given, changed.view(given.shape))]
    assert torch.equal(outs[0][:, :seen], outs[1][:, :seen])
    assert not torch.equal(outs[0][:, seen:], outs[1][:, seen:])


def test_scores_of_any_size_give_finite_numbers():
    shape = (2, 2, 8, 8)
    attention = ShortAttention(heads_of(1e4 * joint(shape, torch.float32), shape))
    assert torch.isfinite(attention.out()).all()
    assert torch.isfinite(attention.back(torch.ones(16, 16))).all()


def test_rows_have_the_same_bits_in_any_company():
    shape = (9, 2, 12, 16)
    given, dy = joint(shape, torch.float32), joint(shape, torch.float32)[:, : 2 * 16].contiguous()
    whole = ShortAttention(heads_of(given, shape))
    some, own = slice(4 * 12, 6 * 12), (2, *shape[1:])
    part = ShortAttention(heads_of(given[some], own))
    assert torch.equal(whole.out()[some], part.out())
    assert torch.equal(whole.back(dy)[some], part.back(dy[some]))


@pytest.mark.parametrize(
    ("shape", "short"),
    [
        ((2, 4, 32, 24), True),
        ((2, 4, 33, 24), False),  # its probabilities would take more room
        ((2, 1, 1, 24), False),
        ((2, 2, 64, 64), True),
        ((2, 2, 65, 64), False),  # a product that may be divided among threads
    ],
)
def test_which_rows_are_short(shape, short):
    assert isinstance(causal_attention(heads_of(joint(shape, torch.float32), shape)), ShortAttention) == short


def test_what_is_kept_is_counted():
    """Of the tensors behind an attention: queries, keys, values and output, (4 H), and K L probabilities."""
    shape = rows, heads, length, size = (4, 3, 16, 12)
    attention = ShortAttention(heads_of(joint(shape, torch.float32), shape))
    arrays = [value for value in vars(attention).values() if isinstance(value, torch.Tensor)]
    held = sum(array.numel() for array in arrays) + sum(int(np.prod(each.shape)) for each in attention._qkv)
    assert held == rows * length * (4 * heads * size + heads * length)
