"""Counts the bytes of tensors while they live, real or fake. What kernels allocate inside themselves is not seen."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_GRAIN = 512  # bytes that storages are rounded up to


class TensorBytes(TorchDispatchMode):
    """Counts the bytes of tensors made within the context, while they live: ``now``, and the most at once, ``peak``."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._alive: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        inputs = {
            leaf.untyped_storage()._cdata for leaf in tree_leaves((args, kwargs or {})) if isinstance(leaf, Tensor)
        }
        made = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            # A view of what existed before the context is not new.
            if isinstance(leaf, Tensor) and leaf.untyped_storage()._cdata not in inputs:
                self._count(leaf.untyped_storage())
        return made

    def _count(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self._alive:
            return
        size = rounded(storage.nbytes())
        self._alive.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._free, key, size)

    def _free(self, key: int, size: int) -> None:
        self._alive.discard(key)
        self.now -= size


def rounded(size: int) -> int:
    return -(-size // _GRAIN) * _GRAIN
