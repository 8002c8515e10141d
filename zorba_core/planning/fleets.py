"""Fleets: who takes part and how much VRAM each client has. Distributions as in the paper, or a table of a user's own.

Shapes: N clients. ``capacity_N_bytes`` float64.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.planning.memory import GIB, Workload, psi_block_bytes, psi_model_bytes
from zorba_core.planning.models import ModelSpec

MAX_CLIENTS = 1_000_000
MAX_CSV_BYTES = 64_000_000
COLUMNS = ("client", "vram_gib")

_EXPORT_AS_CSV = "export the fleet as CSV with columns client,vram_gib"


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
        bad = np.flatnonzero(~np.isfinite(capacity) | (capacity <= 0))
        if bad.size:
            index = int(bad[0])
            raise InvalidInputError(
                f"client {self.names[index]!r} (row {index + 1}): VRAM is {capacity[index] / GIB:g} GiB; "
                "it must be a finite number above 0"
            )
        capacity.setflags(write=False)
        object.__setattr__(self, "capacity_N_bytes", capacity)

    @property
    def num_clients(self) -> int:
        return len(self.names)

    @property
    def capacity_N_gib(self) -> NDArray[np.float64]:
        return self.capacity_N_bytes / GIB

    def to_frame(self) -> pd.DataFrame:
        """Columns ``client`` and ``vram_gib``, as :func:`fleet_from_frame` reads them."""
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
    bounds = (0.0 - mean_fraction) / spread, (1.0 - mean_fraction) / spread
    fraction = stats.truncnorm.rvs(
        *bounds, loc=mean_fraction, scale=spread, size=num_clients, random_state=client_rng(num_clients, seed)
    )
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
    bounds = (np.log(low) - centre) / sigma, (np.log(high) - centre) / sigma
    logarithm = stats.truncnorm.rvs(
        *bounds, loc=centre, scale=sigma, size=num_clients, random_state=client_rng(num_clients, seed)
    )
    return _numbered(np.clip(np.exp(logarithm), low, high))


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
    taken = 0
    for (gib, _), count in zip(kinds.values(), counts, strict=True):
        capacity_N_gib[order[taken : taken + count]] = gib
        taken += count
    return _numbered(capacity_N_gib * GIB)


def read_fleet_csv(source: str | os.PathLike[str] | bytes) -> Fleet:
    """A fleet from a CSV with a column ``vram_gib`` and, if there is one, ``client`` (a path, or the bytes themselves).

    Raises:
        MissingDataError: no such file.
        InvalidInputError: too large, not UTF-8 CSV, wrong columns, or a row with text, NaN, or a number not above 0.
    """
    where = "uploaded CSV" if isinstance(source, bytes) else str(source)
    if not isinstance(source, bytes):
        if not os.path.isfile(source):
            raise MissingDataError(f"fleet file {where!r} does not exist; give a CSV with columns client,vram_gib")
        if os.path.getsize(source) > MAX_CSV_BYTES:
            raise InvalidInputError(_too_large(where))
        with open(source, "rb") as file:
            source = file.read()
    if len(source) > MAX_CSV_BYTES:
        raise InvalidInputError(_too_large(where))
    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInputError(f"{where}: not UTF-8 text; {_EXPORT_AS_CSV}") from None
    if "\0" in text:
        raise InvalidInputError(f"{where}: a binary file; {_EXPORT_AS_CSV}")
    try:
        with warnings.catch_warnings():
            # Rows longer than the header would lose their last cells under a mere warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                io.StringIO(text), dtype=str, keep_default_na=False, skipinitialspace=True, index_col=False
            )
    except (pd.errors.ParserError, pd.errors.ParserWarning, pd.errors.EmptyDataError) as error:
        raise InvalidInputError(f"{where}: not a CSV table ({str(error).strip()})") from None
    try:
        return fleet_from_frame(frame)
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}: {error}") from None


def fleet_from_frame(frame: pd.DataFrame) -> Fleet:
    """A fleet from a table with a column ``vram_gib`` and, if there is one, ``client``. Rows left wholly empty, as a
    table editor leaves them, are skipped.

    Raises:
        InvalidInputError: wrong columns, no rows, or a cell that is not a number above 0, naming row and value.
    """
    columns = [str(column).strip().lower() for column in frame.columns]
    unknown = [column for column in columns if column not in COLUMNS]
    if "vram_gib" not in columns or unknown or len(set(columns)) != len(columns):
        raise InvalidInputError(
            f"columns are {', '.join(columns) or 'none'}; want client,vram_gib (client may be left out)"
        )
    table: Mapping[str, list] = {column: frame.iloc[:, index].tolist() for index, column in enumerate(columns)}
    names, capacities = [], []
    for row, cell in enumerate(table["vram_gib"], start=1):
        client = table["client"][row - 1] if "client" in table else None
        name = "" if _empty(client) else str(client).strip()
        if _empty(cell) and not name:
            continue
        label = f"row {row}" + (f" (client {name!r})" if name else "")
        try:
            value = float(cell)
        except (TypeError, ValueError):
            raise InvalidInputError(f"{label}: vram_gib is {cell!r}; it must be a number of GiB, such as 24") from None
        if not 0 < value < np.inf:
            raise InvalidInputError(f"{label}: vram_gib is {cell!r}; it must be a finite number above 0")
        names.append(name or f"client-{row - 1}")
        capacities.append(value * GIB)
    if not capacities:
        raise InvalidInputError("the fleet has no rows; give each client a row with its VRAM in GiB")
    return Fleet(tuple(names), np.array(capacities))


def _too_large(where: str) -> str:
    return f"{where}: larger than {MAX_CSV_BYTES} bytes; a fleet has at most {MAX_CLIENTS} rows"


def _empty(cell: object) -> bool:
    return cell is None or cell == "" or (isinstance(cell, float) and np.isnan(cell)) or cell is pd.NA


def _paper_range_bytes(model: ModelSpec, workload: Workload) -> tuple[float, float]:
    parameters, block = psi_model_bytes(model, workload), psi_block_bytes(model, workload)
    return parameters + block, parameters + model.num_blocks * block


def client_rng(num_clients: int, seed: int) -> np.random.Generator:
    """The stream that a fleet of ``num_clients`` is drawn from.

    Raises:
        InvalidInputError: a size or seed out of range.
    """
    if not 1 <= num_clients <= MAX_CLIENTS:
        raise InvalidInputError(f"number of clients is {num_clients}; it must be between 1 and {MAX_CLIENTS}")
    if seed < 0:
        raise InvalidInputError(f"seed is {seed}; it must be at least 0")
    return np.random.default_rng(seed)


def _numbered(capacity_N_bytes: NDArray[np.float64]) -> Fleet:
    return Fleet(tuple(f"client-{index}" for index in range(len(capacity_N_bytes))), capacity_N_bytes)
