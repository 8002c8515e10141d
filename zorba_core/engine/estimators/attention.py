"""Causal attention outside of autograd: what its backward pass needs, and that pass.

PyTorch's kernel goes through rows in blocks that a core's cache keeps, and finds the probabilities again in its
backward pass. Rows of a few dozen positions are a block each: NumPy multiplies such matrices where they lie, without
copies, and probabilities that take hardly more room than the output are kept. It takes a quarter less time on
opt-mini's rows.

Shapes: B rows, L positions, P = B L, H hidden size, K heads of D numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from zorba_core.planning.pass_widths import is_short

_ATEN = torch.ops.aten
_flash = _ATEN._scaled_dot_product_flash_attention_for_cpu
_flash_backward = _ATEN._scaled_dot_product_flash_attention_for_cpu_backward


def causal_attention(qkv_BKLD: Sequence[Tensor]) -> FlashAttention | ShortAttention:
    """Of queries, keys and values, by the way that suits the rows' length."""
    short = is_short(*qkv_BKLD[0].shape[2:])
    return ShortAttention(qkv_BKLD) if short else FlashAttention(qkv_BKLD, is_causal=True)


class FlashAttention:
    """By PyTorch's kernel, with any mask."""

    def __init__(self, qkv_BKLD: Sequence[Tensor], *, is_causal: bool, mask: Tensor | None = None) -> None:
        self._sight = {"dropout_p": 0.0, "is_causal": is_causal, "attn_mask": mask}
        self._qkv = qkv_BKLD
        self._out_BKLD, self._lse_BLK = _flash(*qkv_BKLD, **self._sight)

    def out(self) -> Tensor:
        """(P, H)"""
        return _side_by_side(self._out_BKLD)

    def back_each(self, dy_PH: Tensor) -> list[Tensor]:
        """The gradients of queries, keys and values, (P, H) each."""
        dy_BKLD = dy_PH.view(self._out_BKLD.transpose(1, 2).shape).transpose(1, 2)
        d_BKLD = _flash_backward(dy_BKLD, *self._qkv, self._out_BKLD, self._lse_BLK, **self._sight)
        return [_side_by_side(each) for each in d_BKLD]

    def back(self, dy_PH: Tensor) -> Tensor:
        """The same side by side, (P, 3 H)."""
        return torch.cat(self.back_each(dy_PH), dim=1)


class ShortAttention:
    """By products of whole rows."""

    def __init__(self, qkv_BKLD: Sequence[Tensor]) -> None:
        q, k, v = self._qkv = [each.numpy() for each in qkv_BKLD]
        rows, heads, length, size = q.shape
        p_BKLL = qkv_BKLD[0].new_empty(rows, heads, length, length)
        np.matmul(q, k.swapaxes(2, 3), out=p_BKLL.numpy())
        torch.add(_unseen(length, p_BKLL.dtype), p_BKLL, alpha=size**-0.5, out=p_BKLL)
        self._p_BKLL = _ATEN._softmax.out(p_BKLL, -1, False, out=p_BKLL)
        self._out_BLKD = p_BKLL.new_empty(rows, length, heads, size)
        np.matmul(p_BKLL.numpy(), v, out=self._out_BLKD.numpy().swapaxes(1, 2))

    def out(self) -> Tensor:
        """(P, H)"""
        return self._out_BLKD.flatten(2).flatten(0, 1)

    def back(self, dy_PH: Tensor) -> Tensor:
        """The gradients of queries, keys and values side by side, (P, 3 H)."""
        (q, k, v), p_BKLL, (rows, length, heads, size) = self._qkv, self._p_BKLL, self._out_BLKD.shape
        dy = dy_PH.numpy().reshape(rows, length, heads, size).swapaxes(1, 2)
        ds_BKLL = torch.empty_like(p_BKLL)
        np.matmul(dy, v.swapaxes(2, 3), out=ds_BKLL.numpy())
        _ATEN._softmax_backward_data.out(ds_BKLL, p_BKLL, -1, p_BKLL.dtype, grad_input=ds_BKLL)
        ds, d_PH = ds_BKLL.mul_(size**-0.5).numpy(), dy_PH.new_empty(len(dy_PH), 3 * heads * size)
        dq, dk, dv = d_PH.numpy().reshape(rows, length, 3, heads, size).transpose(2, 0, 3, 1, 4)
        np.matmul(ds, k, out=dq)
        np.matmul(ds.swapaxes(2, 3), q, out=dk)
        np.matmul(p_BKLL.numpy().swapaxes(2, 3), dy, out=dv)
        return d_PH


@functools.cache
def _unseen(length: int, dtype: torch.dtype) -> Tensor:
    """(L, L): what is added to scores, minus infinity where a query would look ahead."""
    return torch.full((length, length), -torch.inf, dtype=dtype).triu_(1)


def _side_by_side(heads_BKLD: Tensor) -> Tensor:
    """(B, K, L, D) -> (P, H), without a copy of what attention's kernels give."""
    return heads_BKLD.transpose(1, 2).flatten(2).flatten(0, 1)
