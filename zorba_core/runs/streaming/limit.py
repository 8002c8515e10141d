"""How much memory a run may take that leaves its model in files: planned before the first round, watched in each.

What a run needs follows from its sizes: the block at work, its weights put aside while they are moved, the block that
is read ahead, what of the model is not in blocks, the tensors within a block, and the hidden states of the base and of
each direction. A smaller limit is met by doing with less: directions in turns, evaluation in smaller parts, no reading
ahead. Where even that does not fit, the request is refused with the amount that would do.

There is no number of resident blocks to choose: two are held, the one at work and the one that is read, and what the
machine has beyond the limit its file cache fills with the others.

Memory is counted above that of the process before the model was opened.

Shapes: N clients, B rows of each, L positions, H hidden size, Q directions.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path

from zorba_core.engine.estimators.cohort import rows_at_once
from zorba_core.engine.evaluation import BATCH_SIZE as EVALUATION_ROWS
from zorba_core.engine.settings import TrainSettings
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.planning.byte_sizes import bytes_of, in_mib
from zorba_core.runs.memory_estimate import client_peak
from zorba_core.runs.memory_meter import most_resident_bytes, resident_bytes, restart_most
from zorba_core.runs.preflight import PIECE
from zorba_core.runs.streaming.network import StreamedNetwork

_LIBRARIES = 48 * 2**20  # packed factors of products, and code that is loaded when it is first used
_HOLES = 1.1  # of an allocator between tensors of a block
_FORWARD_MODE = 3  # of preflight: each tensor, its derivative, and what makes it
_COMPARED_BYTES = 6 * 8  # of preflight: weights before and after, step, and their differences, in 64 bits
_MEMORY_INFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
_M_MMAP_THRESHOLD = -3  # of mallopt
_RETURNED = 2**20  # bytes from which memory goes back to the system when it is freed


class MemoryLimit:
    """One run's limit. Make it before the model is opened.

    Raises:
        InvalidInputError: the amount cannot be read.
    """

    def __init__(self, text: str) -> None:
        self.limit = bytes_of(text)
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(None)
            library.mallopt(_M_MMAP_THRESHOLD, _RETURNED)
            library.malloc_trim(0)
        restart_most()
        self._before = resident_bytes() or 0
        self._peak = 0
        self._next_block = 0
        self.planned: dict[str, int] = {}

    @property
    def used(self) -> int:
        """Bytes above those before the model was opened."""
        return max(0, (resident_bytes() or 0) - self._before)

    @property
    def peak(self) -> int:
        """The most so far."""
        self._peak = max(self._peak, (most_resident_bytes() or 0) - self._before)
        return self._peak

    def watch(self) -> None:
        """End the run with one line before the system ends it without one.

        Raises:
            RunError: more is used than the limit, or the machine has not enough for another block.
        """
        now = max(self.used, self.peak)
        if now > self.limit:
            raise RunError(
                f"the run took {in_mib(now)} and its memory limit is {in_mib(self.limit)}; resume it with "
                f"--memory-limit {in_mib(now * 1.1).replace(' ', '')}"
            )
        left = available_bytes()
        if left is not None and left < self._next_block:
            raise RunError(
                f"the machine has {in_mib(left)} left and a block takes {in_mib(self._next_block)}; free some memory "
                "and resume the run"
            )

    def plan(
        self, network: StreamedNetwork, settings: TrainSettings, num_clients: int, *, evaluates: bool = True
    ) -> None:
        """Divide the limit, and have the network keep to it.

        Args:
            evaluates: False for a client of a federation, which computes its rounds alone: no evaluation, no preflight.

        Raises:
            InvalidInputError: it is too small, or the machine has less; the message has the amount that would do.
        """
        block = max(network.sizes_M) * network.dtype.itemsize
        length, width = settings.seq_len, int(network.model.config.hidden_size)
        clients = max(1, round(settings.participation * num_clients))
        rows = settings.batch_size * clients
        state = rows * length * width * network.dtype.itemsize
        at_once = min(settings.max_rows or rows, rows, rows_at_once(network, length))

        def tensors(count: int) -> int:
            peak = client_peak(network.model.config, batch_size=count, seq_len=length, dtype=network.dtype)
            return int(_HOLES * peak.activations)

        loaded = self.used + _LIBRARIES  # rows, tokenizer, what is not in blocks
        evaluated = min(EVALUATION_ROWS, settings.eval_rows or EVALUATION_ROWS)
        round_tensors, judged_tensors = tensors(at_once), tensors(evaluated) if evaluates else 0
        compared = _COMPARED_BYTES * min(max(network.sizes_M), PIECE)
        probe = max(_FORWARD_MODE * tensors(settings.batch_size), compared) if evaluates else 0
        least_round = 2 * block + round_tensors + 2 * state
        least_judged = 2 * block + judged_tensors  # an update that is due takes as much as its block
        least_probe = 2 * block + probe
        least = loaded + max(least_round, least_judged, least_probe)
        self._next_block = block
        if least > self.limit:
            raise InvalidInputError(
                f"memory limit {in_mib(self.limit)} is too small: this model and these settings take at least "
                f"{in_mib(least)} (two blocks of {in_mib(block)}, {in_mib(max(round_tensors, probe))} within a block, "
                f"{in_mib(2 * state)} hidden states, {in_mib(loaded)} for all else); give --memory-limit "
                f"{in_mib(least).replace(' ', '')} or more, or a smaller batch or length"
            )
        available = available_bytes()
        if available is not None and available + self.used < least:
            raise InvalidInputError(
                f"the machine has {in_mib(available)} free and this model and these settings take at least "
                f"{in_mib(least)}; free some memory, or use a smaller batch or length"
            )
        network.store.prefetch = least + block <= self.limit
        blocks = block * network.store.prefetch
        spare = self.limit - loaded - max(least_round - 2 * state, least_judged, least_probe) - blocks
        network.hidden_bytes = max(2 * state, min(spare, (1 + settings.num_perturbations) * state))
        self.planned = {
            "blocks": 2 * block + blocks,
            "hidden_states": network.hidden_bytes,
            "within_a_block": max(round_tensors, judged_tensors, probe),
            "other": loaded,
        }

    def sentence(self) -> str:
        """For the user, before the first round."""
        planned = sum(self.planned.values())
        parts = ", ".join(f"{name.replace('_', ' ')} {in_mib(size)}" for name, size in self.planned.items())
        return (
            f"the model stays in its files: {in_mib(planned)} of the limit of {in_mib(self.limit)} are planned "
            f"({parts})"
        )

    def describe(self) -> dict[str, object]:
        """For a run's summary."""
        return {"limit_bytes": self.limit, "peak_bytes": self.peak, "planned": self.planned}


def available_bytes() -> int | None:
    """What the machine, or the group that this process is in, can still give; None where nobody says."""
    left: list[int] = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = _MEMORY_INFO.read_text().splitlines()
        left += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    with contextlib.suppress(OSError, ValueError):
        most = (_CGROUP / "memory.max").read_text().strip()
        if most != "max":
            facts = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
            used = int((_CGROUP / "memory.current").read_text()) - int(facts.get("file", 0))
            left.append(int(most) - used)
    return min(left, default=None)


@contextlib.contextmanager
def memory_errors() -> Iterator[None]:
    """Within the context an allocation that fails is a RunError of one line."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            raise RunError(
                "the system gave no more memory; free some, or leave the model in its files with --memory-limit"
            ) from None
        raise
