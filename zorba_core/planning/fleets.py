"""Fleets: who takes part and how much VRAM each client has. Distributions as in the paper.

Shapes: N clients. ``capacity_N_bytes`` float64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zorba_core.errors import InvalidInputError, in_short, name_some
from zorba_core.planning.memory import GIB, MAX_CLIENTS, MAX_VRAM_GIB, Workload, psi_block_bytes, psi_model_bytes
from zorba_core.planning.models import ModelSpec


@dataclass(frozen=True, eq=False)
class Fleet:
    """N named clients and the VRAM each may use, in bytes (psi_max,n)."""

    names: tuple[str, ...]
    capacity_N_bytes: NDArray[np.float64]

    def __post_init__(self) -> None:
        capacity = np.array(self.capacity_N_bytes, dtype=np.float64)
        if capacity.ndim != 1 or not 1 <= capacity.size <= MAX_CLIENTS:
            raise InvalidInputError(f"a fleet has 1 to {MAX_CLIENTS} clients, not {capacity.size}")
        if len(self.names) != capacity.size:
            raise InvalidInputError(f"{len(self.names)} client names for {capacity.size} capacities")
        bad = np.flatnonzero(~(capacity > 0) | ~(capacity <= MAX_VRAM_GIB * GIB))
        if bad.size:
            index = int(bad[0])
            raise InvalidInputError(
                f"client {self.names[index]!r} (row {index + 1}): VRAM is {capacity[index] / GIB:g} GiB; "
                f"it must be a finite number above 0 and at most {MAX_VRAM_GIB:g}"
            )
        capacity.setflags(write=False)
        object.__setattr__(self, "capacity_N_bytes", capacity)

    @property
    def num_clients(self) -> int:
        return len(self.names)

    @property
    def capacity_N_gib(self) -> NDArray[np.float64]:
        return self.capacity_N_bytes / GIB

    def matched(self, clients: Sequence[str]) -> Fleet:
        """The fleet in the order of these clients, where it names them; itself where it names none of them.

        Raises:
            InvalidInputError: it names some of them, or others as well.
        """
        place = {name: index for index, name in enumerate(self.names)}
        if not place.keys() & {*clients}:
            return self
        for what, names in (
            ("has no client", [client for client in clients if client not in place]),
            ("has other clients than the rows:", [name for name in self.names if name not in {*clients}]),
        ):
            if names:
                raise InvalidInputError(
                    f"the fleet {what} {name_some(names)}; give it a row for each client of the rows"
                )
        return Fleet(tuple(clients), self.capacity_N_bytes[[place[client] for client in clients]])

    def to_frame(self) -> pd.DataFrame:
        """Columns ``client`` and ``vram_gib``, as :func:`zorba_core.data.fleet_tables.fleet_from_frame` reads them."""
        return pd.DataFrame({"client": self.names, "vram_gib": self.capacity_N_gib})


def uniform_fleet(model: ModelSpec, workload: Workload, num_clients: int, seed: int) -> Fleet:
    """The paper's fleet (section V-A): capacities U[parameters + 1 block, parameters + M blocks], independent."""
    low, high = _paper_range_bytes(model, workload)
    return _numbered(client_rng(num_clients, seed).uniform(low, high, num_clients))


def truncated_normal_fleet(
    model: ModelSpec, workload: Workload, num_clients: int, seed: int, mean_fraction: float = 0.5, spread: float = 0.2
) -> Fleet:
    """Normal capacities truncated to the paper's range. ``mean_fraction`` in [0, 1] places the mean between its ends
    and ``spread`` is the standard deviation as a fraction of the range's width."""
    if not 0 <= mean_fraction <= 1:
        raise InvalidInputError(f"mean fraction is {mean_fraction}; it must be between 0 and 1")
    if not 0 < spread < np.inf:
        raise InvalidInputError(f"spread is {spread}; it must be a finite number above 0")
    low, high = _paper_range_bytes(model, workload)
    fraction = _truncated_normal(mean_fraction, spread, (0.0, 1.0), num_clients, seed)
    return _numbered(low + fraction * (high - low))


def lognormal_fleet(
    model: ModelSpec,
    workload: Workload,
    num_clients: int,
    seed: int,
    median_fraction: float = 0.25,
    sigma: float = 0.6,
) -> Fleet:
    """Lognormal capacities, truncated to the paper's range: many small clients and a tail of large ones.
    ``median_fraction`` in [0, 1] places the untruncated median between the range's ends, ``sigma`` is the standard
    deviation of the logarithm of the capacity."""
    if not 0 <= median_fraction <= 1:
        raise InvalidInputError(f"median fraction is {median_fraction}; it must be between 0 and 1")
    if not 0 < sigma < np.inf:
        raise InvalidInputError(f"sigma is {sigma}; it must be a finite number above 0")
    low, high = _paper_range_bytes(model, workload)
    centre = np.log(low + median_fraction * (high - low))
    logarithm = _truncated_normal(centre, sigma, (np.log(low), np.log(high)), num_clients, seed)
    return _numbered(np.clip(np.exp(logarithm), low, high))


def _truncated_normal(
    mean: float, deviation: float, ends: tuple[float, float], num_clients: int, seed: int
) -> NDArray[np.float64]:
    from scipy import stats  # most commands need none of it, and it takes long to load

    low, high = ((end - mean) / deviation for end in ends)
    rng = client_rng(num_clients, seed)
    return stats.truncnorm.rvs(low, high, loc=mean, scale=deviation, size=num_clients, random_state=rng)


def two_kinds_fleet(small_gib: float, large_gib: float, num_clients: int, large_fraction: float, seed: int) -> Fleet:
    """Two kinds of GPU in a random order: ``round(large_fraction * N)`` clients hold ``large_gib``, the others
    ``small_gib``."""
    return _kinds_fleet({"large": (large_gib, large_fraction)}, small_gib, num_clients, seed)


def three_kinds_fleet(
    small_gib: float,
    medium_gib: float,
    large_gib: float,
    num_clients: int,
    medium_fraction: float,
    large_fraction: float,
    seed: int,
) -> Fleet:
    """As :func:`two_kinds_fleet`, with ``round(medium_fraction * N)`` clients of a third kind."""
    kinds = {"large": (large_gib, large_fraction), "medium": (medium_gib, medium_fraction)}
    return _kinds_fleet(kinds, small_gib, num_clients, seed)


def _kinds_fleet(kinds: Mapping[str, tuple[float, float]], small_gib: float, num_clients: int, seed: int) -> Fleet:
    """``kinds``: GiB and share of every kind but the small one."""
    for name, (_, fraction) in kinds.items():
        if not 0 <= fraction <= 1:
            raise InvalidInputError(f"{name} fraction is {fraction}; it must be between 0 and 1")
    counts = [round(fraction * num_clients) for _, fraction in kinds.values()]
    if sum(counts) > num_clients:
        raise InvalidInputError(f"the shares of {' and '.join(kinds)} GPUs add up to more than all clients")
    order = client_rng(num_clients, seed).permutation(num_clients)
    capacity_N_gib = np.full(num_clients, small_gib, float)
    start = 0
    for (gib, _), count in zip(kinds.values(), counts, strict=True):
        capacity_N_gib[order[start : start + count]] = gib
        start += count
    return _numbered(capacity_N_gib * GIB)


def _paper_range_bytes(model: ModelSpec, workload: Workload) -> tuple[float, float]:
    parameters, block = psi_model_bytes(model, workload), psi_block_bytes(model, workload)
    return parameters + block, parameters + model.num_blocks * block


def client_rng(num_clients: int, seed: int) -> np.random.Generator:
    """The stream that a fleet of ``num_clients`` is drawn from.

    Raises:
        InvalidInputError: a size or seed out of range.
    """
    if not 1 <= num_clients <= MAX_CLIENTS:
        raise InvalidInputError(f"number of clients is {in_short(num_clients)}; it must be from 1 to {MAX_CLIENTS}")
    if seed < 0:
        raise InvalidInputError(f"seed is {seed}; it must be at least 0")
    return np.random.default_rng(seed)


def _numbered(capacity_N_bytes: NDArray[np.float64]) -> Fleet:
    return Fleet(tuple(f"client-{index}" for index in range(len(capacity_N_bytes))), capacity_N_bytes)
