"""Several processes on one run (``torchrun``): each computes some clients, scalars are gathered, all update alike.

All ranks hold the whole model and know the seeds, so the only thing to exchange in a round is one number for each
client and direction, and the loss. Gathering goes over gloo on the CPU also where the model is on a GPU: it is a few
kilobytes, and every rank then reads the same float64 bits. Rank 0 alone writes and prints.

Shapes: N clients.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from zorba_core.errors import InvalidInputError


@dataclass(frozen=True)
class Ranks:
    """This process among those that work on the run. The default is a process alone."""

    rank: int = 0
    size: int = 1

    @property
    def writes(self) -> bool:
        """Is this the one process that writes the run's folder and talks to the user?"""
        return self.rank == 0

    def own(self, clients: np.ndarray) -> np.ndarray:
        """The clients, of those given, that this rank computes."""
        return clients[self.rank :: self.size]

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Elementwise sum over ranks, float64, the same bits on every rank. Where all ranks but one hold zeros it is
        that one's value, exactly."""
        if self.size == 1:
            return values
        total = torch.from_numpy(np.array(values, dtype=np.float64))
        dist.all_reduce(total)
        return total.numpy()

    def from_first(self, value: Any) -> Any:
        """Rank 0's value (a plain Python object) on every rank."""
        if self.size == 1:
            return value
        holder = [value]
        dist.broadcast_object_list(holder, src=0)
        return holder[0]

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value (a plain Python object), on every rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values


ALONE = Ranks()


@contextlib.contextmanager
def joined() -> Iterator[Ranks]:
    """Join the processes that ``torchrun`` started, or be alone where it did not.

    Each process takes the GPU of its local rank, if there are GPUs.

    Raises:
        InvalidInputError: more processes on this machine than it has GPUs, where it has any.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ALONE
        return
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if torch.cuda.is_available():
        if local >= torch.cuda.device_count():
            raise InvalidInputError(
                f"local rank {local} has no GPU of its own: this machine has {torch.cuda.device_count()}; "
                "start torchrun with --nproc-per-node at most that"
            )
        torch.cuda.set_device(local)  # "cuda" means this one from here on
    dist.init_process_group("gloo")
    try:
        yield Ranks(dist.get_rank(), size)
    finally:
        dist.destroy_process_group()
