"""A fleet: N clients, the VRAM of each, and the model and workload of their training.

Fleets are drawn as in the paper, drawn from real mixes of GPUs, or read from a table of names and GiB (CSV, TSV, Excel,
or the output of ``nvidia-smi``)::

    Fleet.uniform("opt-125m", clients=50, seed=0)
    Fleet.gpus("opt-1.3b", clients=20, mix="cloud")
    Fleet.from_csv("fleet.csv", "opt-1.3b")

Shapes: N clients, C cards of a mix. ``capacity_N_bytes`` float64, ``budget_N`` int64 whole blocks.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from zorba_core import show
from zorba_core.errors import InvalidInputError, MissingDataError, in_short, name_some
from zorba_core.vram import (
    GIB,
    MAX_CLIENTS,
    MAX_VRAM_GIB,
    PAPER_WORKLOAD,
    ModelSpec,
    Workload,
    affordable_blocks,
    check_clients,
    model_spec,
    psi_block_bytes,
    psi_client_bytes,
    psi_model_bytes,
    whole_block_budgets,
)

NAME_COLUMNS, COUNT_COLUMN = ("client", "name", "gpu"), "clients"
SIZE_COLUMNS: Mapping[str, float] = {  # GiB of one unit of each column
    **dict.fromkeys(("vram_gib", "vram", "gib", "memory_gib"), 1.0),
    **dict.fromkeys(("vram_gb", "gb", "memory_gb"), 1e9 / GIB),
    **dict.fromkeys(("vram_mib", "mib", "memory_mib", "memory_total_mib"), 1 / 1024),
}
_MOST_BARS = 60  # of the histogram in a notebook


@dataclass(frozen=True)
class Mix:
    """A mix of GPUs (``gpus.toml``): GiB of each card, and the cards' relative frequencies."""

    title: str
    gib: Mapping[str, float]
    source: str
    date: str
    share: Mapping[str, float] | None = None  # relative frequency by card; None: all equal
    weights: str = "each kind equally often: an assumption"  # the origin of the shares
    reserved_gib: float = 0.0  # memory of every device that the system uses


_LEAST_GIB = 1e-3  # of a drawn client: a fleet has no client without VRAM

MIXES: Mapping[str, Mix] = {
    name: Mix(**mix) for name, mix in tomllib.loads(Path(__file__).with_name("gpus.toml").read_text("utf-8")).items()
}


@dataclass(frozen=True, eq=False, repr=False)
class Fleet:
    """N named clients, the VRAM that each may use (psi_max,n) in bytes, and the model and workload of their training.

    Raises:
        InvalidInputError: no clients or too many, or a capacity out of range; names the client.
    """

    names: tuple[str, ...]
    capacity_N_bytes: NDArray[np.float64]
    model: ModelSpec
    workload: Workload = PAPER_WORKLOAD

    def __post_init__(self) -> None:
        capacity = np.array(self.capacity_N_bytes, dtype=np.float64)
        check_clients(capacity.size)
        if capacity.shape != (len(self.names),):
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

    def __repr__(self) -> str:
        N, M, gib_N, whole_N = self.num_clients, self.num_blocks, self.capacity_N_gib, self.affordable_N()
        small = int((whole_N < 1).sum())
        return (
            f"Fleet({self.model.name}: {N} client{'' if N == 1 else 's'}, {gib_N.min():.3g} to {gib_N.max():.3g} GiB, "
            f"room for {whole_N.clip(0, M).sum()} of {M * N} blocks{f', {small} too small for one' if small else ''})"
        )

    def _repr_html_(self) -> str:
        """In a notebook: how many clients have room for 0 to M blocks."""
        whole_N = self.affordable_N().clip(0, self.num_blocks)
        count_B, _ = np.histogram(whole_N, min(self.num_blocks + 1, _MOST_BARS), (-0.5, self.num_blocks + 0.5))
        return show.card(repr(self), show.histogram(count_B, "0", str(self.num_blocks), "blocks that fit on a client"))

    @classmethod
    def uniform(
        cls,
        model: str | ModelSpec,
        clients: int = 50,
        *,
        span: tuple[float, float] | None = None,
        seed: int = 0,
        workload: Workload = PAPER_WORKLOAD,
    ) -> Fleet:
        """The paper's fleet (section V-A): independent capacities U[psi_md + psi_block, psi_md + M psi_block]: one to
        all blocks.

        Args:
            span: least and most GiB, in place of the paper's.
        """
        spec = _spec(model)
        low, high = _ends_bytes(spec, workload, span)
        return cls._numbered(_rng(clients, seed).uniform(low, high, clients), spec, workload)

    @classmethod
    def normal(
        cls,
        model: str | ModelSpec,
        clients: int = 50,
        *,
        span: tuple[float, float] | None = None,
        seed: int = 0,
        workload: Workload = PAPER_WORKLOAD,
    ) -> Fleet:
        """Normal capacities around the middle of ``span`` (that of :meth:`uniform`), truncated at its ends, which are
        2.5 standard deviations away."""
        from scipy.special import ndtr, ndtri  # slow to load, and most commands do not need it

        spec = _spec(model)
        low, high = _ends_bytes(spec, workload, span)
        drawn = ndtri(_rng(clients, seed).uniform(ndtr(-2.5), ndtr(2.5), clients))
        return cls._numbered((low + high) / 2 + (high - low) / 5 * drawn, spec, workload)

    @classmethod
    def lognormal(
        cls,
        model: str | ModelSpec,
        clients: int = 50,
        *,
        median: float = 0.25,
        sigma: float = 0.6,
        span: tuple[float, float] | None = None,
        seed: int = 0,
        workload: Workload = PAPER_WORKLOAD,
    ) -> Fleet:
        """Lognormal capacities, truncated to ``span`` (that of :meth:`uniform`): many small clients, a few large ones.

        Args:
            median: position of the untruncated median in the span, in [0, 1].
            sigma: standard deviation of the logarithm of the capacity.
        """
        from scipy import stats  # slow to load, and most commands do not need it

        _check_share("median", median)
        if not 0 < sigma < np.inf:
            raise InvalidInputError(f"sigma is {sigma}; it must be a finite number above 0")
        spec = _spec(model)
        low, high = _ends_bytes(spec, workload, span)
        if low == high:
            return cls._numbered(np.full(clients, high), spec, workload)
        centre = np.log(low + median * (high - low))
        ends = ((np.log(end) - centre) / sigma for end in (low, high))
        drawn = stats.truncnorm.rvs(*ends, loc=centre, scale=sigma, size=clients, random_state=_rng(clients, seed))
        return cls._numbered(np.clip(np.exp(drawn), low, high), spec, workload)

    @classmethod
    def two_kinds(
        cls,
        model: str | ModelSpec,
        clients: int = 50,
        *,
        small_gib: float,
        large_gib: float,
        large_share: float = 0.3,
        **drawn: Any,
    ) -> Fleet:
        """Two kinds of GPU in random order: ``round(large_share * N)`` clients have ``large_gib``, the others
        ``small_gib``. ``drawn``: ``seed`` and ``workload`` of :meth:`kinds`."""
        return cls.kinds(model, clients, [large_gib, small_gib], [large_share], **drawn)

    @classmethod
    def kinds(
        cls,
        model: str | ModelSpec,
        clients: int,
        sizes_gib: Sequence[float],
        shares: Sequence[float],
        *,
        seed: int = 0,
        workload: Workload = PAPER_WORKLOAD,
    ) -> Fleet:
        """Kinds of GPU in random order: ``round(share * N)`` clients have each size, the others the last one.

        Raises:
            InvalidInputError: a share outside [0, 1], or shares that add up to more than N clients.
        """
        for share in shares:
            _check_share("share", share)
        counts = [round(share * clients) for share in shares]
        if sum(counts) > clients:
            raise InvalidInputError(f"the shares {', '.join(map(str, shares))} add up to more than all clients")
        order = _rng(clients, seed).permutation(clients)
        capacity_N_gib = np.empty(clients)
        capacity_N_gib[order] = np.repeat(sizes_gib, [*counts, clients - sum(counts)])
        return cls._numbered(capacity_N_gib * GIB, _spec(model), workload)

    @classmethod
    def gpus(
        cls,
        model: str | ModelSpec,
        clients: int = 50,
        *,
        mix: str = "steam",
        share: float = 1.0,
        seed: int = 0,
        workload: Workload = PAPER_WORKLOAD,
    ) -> Fleet:
        """N devices drawn independently from one of :data:`MIXES`; each client may use ``share`` of the memory that the
        system does not reserve.

        Raises:
            InvalidInputError: an unknown mix, or a share outside (0, 1].
        """
        if mix not in MIXES:
            raise InvalidInputError(f"unknown mix {mix!r}; choose one of {', '.join(MIXES)}")
        if not 0 < share <= 1:
            raise InvalidInputError(f"share of the card is {share}; it must be above 0 and at most 1")
        chosen = MIXES[mix]
        cards = list(chosen.gib)
        weight_C = np.array([1.0 if chosen.share is None else chosen.share[card] for card in cards])
        drawn_N = _rng(clients, seed).choice(len(cards), size=clients, p=weight_C / weight_C.sum())
        gib_C = np.array([chosen.gib[card] for card in cards], float) - chosen.reserved_gib
        names = tuple(f"client-{n} ({cards[card]})" for n, card in enumerate(drawn_N))
        return cls(names, share * gib_C[drawn_N] * GIB, _spec(model), workload)

    @classmethod
    def from_csv(
        cls, source: str | os.PathLike[str] | bytes, model: str | ModelSpec, *, workload: Workload = PAPER_WORKLOAD
    ) -> Fleet:
        """The fleet of a CSV, TSV or Excel file (a path, or its bytes), or of the output of
        ``nvidia-smi --query-gpu=name,memory.total --format=csv``.

        The table has a column of GiB, GB or MiB (``vram_gib``, ``vram_gb``, ``vram_mib``), and optionally one of names
        and one of ``clients``, the number of clients that have this VRAM. A bare list of numbers is one of GiB.

        Raises:
            MissingDataError: no such file.
            InvalidInputError: it is no such table, or a GiB is not a number above 0.
        """
        from zorba_core.tables import KINDS, table_of

        where, content = ("uploaded table", source) if isinstance(source, bytes) else (str(source), _content(source))
        first = content.strip().partition(b"\n")[0].decode("utf-8", "replace")
        if first.startswith(_NVIDIA_SMI_FAILED):
            raise InvalidInputError(
                f"{where}: nvidia-smi failed on that machine: {in_short(first, 200)}; repair its driver, or {_WANT}"
            )
        if first.startswith("+--") and b"NVIDIA-SMI" in content:
            raise InvalidInputError(f"{where}: this is nvidia-smi's table for the screen; {_QUERY}, or {_WANT}")
        if _BARE_NUMBERS.fullmatch(content):
            content = b"vram_gib\n" + b"\n".join(re.split(rb"[\s,;]+", content.strip(b" \t\r\n,;\xef\xbb\xbf")))
        kind = ".xlsx" if content.startswith(b"PK\x03\x04") else os.path.splitext(where)[1].lower()
        frame = table_of(content, where, kind if kind in KINDS else ".csv")
        try:
            return cls.from_frame(frame, model, workload=workload)
        except InvalidInputError as error:
            raise InvalidInputError(f"{where}: {error}") from None

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, model: str | ModelSpec, *, workload: Workload = PAPER_WORKLOAD) -> Fleet:
        """The fleet of a table with a column ``vram_gib`` and optionally ``client``. Empty rows, as table editors leave
        them, are skipped.

        Raises:
            InvalidInputError: wrong columns, no rows, a repeated name, or a cell that is not a number above 0; names
                row and value.
        """
        names, gib_N = _clients_of([str(column) for column in frame.columns], frame.to_numpy(object).tolist())
        return cls(names, gib_N * GIB, _spec(model), workload)

    @property
    def num_clients(self) -> int:
        """N."""
        return len(self.names)

    @property
    def num_blocks(self) -> int:
        """M."""
        return self.model.num_blocks

    @property
    def capacity_N_gib(self) -> NDArray[np.float64]:
        """psi_max,n in GiB."""
        return self.capacity_N_bytes / GIB

    @cached_property
    def budget_N(self) -> NDArray[np.int64]:
        """lambda_n*: whole blocks in 1..M that each client may activate.

        Raises:
            InfeasibleError: a client cannot hold the model and one block; has names and indices of all such clients.
        """
        return whole_block_budgets(self.capacity_N_bytes, self.model, self.workload, self.names)

    def affordable_N(self, reserve_N_bytes: ArrayLike = 0.0) -> NDArray[np.int64]:
        """Whole blocks that each client can hold besides a reserve; below 1 if it cannot hold one. Broadcasts as
        :func:`zorba_core.vram.affordable_blocks`."""
        return affordable_blocks(self.capacity_N_bytes, self.model, self.workload, reserve_N_bytes)

    def used_N_bytes(self, blocks_N: ArrayLike) -> NDArray[np.float64]:
        """psi_tot,n of each client with ``blocks_N`` activated blocks."""
        return psi_client_bytes(self.model, self.workload, blocks_N)

    def vram_ratio(self, total_blocks: ArrayLike) -> NDArray[np.float64]:
        """sum_n psi_tot,n / sum_n psi_max,n for one or more totals of activated blocks."""
        parameters = self.num_clients * psi_model_bytes(self.model, self.workload)
        used = parameters + np.asarray(total_blocks) * psi_block_bytes(self.model, self.workload)
        return used / self.capacity_N_bytes.sum()

    def total_at_ratio(self, vram_ratio: float) -> int:
        """The total of activated blocks whose :meth:`vram_ratio` is closest to the given one."""
        parameters = self.num_clients * psi_model_bytes(self.model, self.workload)
        free = vram_ratio * self.capacity_N_bytes.sum() - parameters
        return round(free / psi_block_bytes(self.model, self.workload))

    def select(self, clients: Sequence[int]) -> Fleet:
        """The fleet of the clients with these indices, in this order."""
        return replace(
            self, names=tuple(self.names[n] for n in clients), capacity_N_bytes=self.capacity_N_bytes[list(clients)]
        )

    def covering(self) -> Fleet:
        """This fleet, or if its clients cannot hold all blocks together, one whose smallest clients hold more: a few
        clients that are drawn at random would often be refused. A client holds at most all blocks."""
        budget_N, missing = self.budget_N.copy(), self.num_blocks - int(self.budget_N.sum())
        for _ in range(missing):
            budget_N[int(budget_N.argmin())] += 1
        raised_N = self.used_N_bytes(budget_N)
        capacity_N = np.where(budget_N > self.budget_N, raised_N, self.capacity_N_bytes)
        return replace(self, capacity_N_bytes=capacity_N) if missing > 0 else self

    def matched(self, clients: Sequence[str]) -> Fleet:
        """The fleet in the order of the clients that the rows name; unchanged if it has none of these names.

        Raises:
            InvalidInputError: it has only some of the names, or other names too.
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
        return self.select([place[client] for client in clients])

    def to_frame(self) -> pd.DataFrame:
        """Columns ``client`` and ``vram_gib``, as :meth:`from_csv` and :meth:`from_frame` read them."""
        return pd.DataFrame({"client": self.names, "vram_gib": self.capacity_N_gib})

    def explore(self) -> Any:
        """In a notebook: the page Explore with this fleet. Drag its point, paint its bars, choose a method; ``fleet``,
        ``total`` and ``solution`` of the result are then those on the screen.

        Raises:
            MissingDataError: the packages of the extra ``notebooks`` are not installed.
            InvalidInputError: a model that is no preset, or a workload out of the page's range.
        """
        from zorba_core import installed

        if installed.missing_packages("anywidget"):
            raise MissingDataError(
                f"fleet.explore() needs anywidget, not installed here: {installed.install_command('notebooks')}"
            )
        return installed.dashboard_module("explore.widget").Explorer(self)

    @classmethod
    def _numbered(cls, capacity_N_bytes: NDArray[np.float64], model: ModelSpec, workload: Workload) -> Fleet:
        names = tuple(f"client-{index}" for index in range(len(capacity_N_bytes)))
        return cls(names, capacity_N_bytes, model, workload)


def _spec(model: str | os.PathLike[str] | ModelSpec) -> ModelSpec:
    return model if isinstance(model, ModelSpec) else model_spec(model)


def _ends_bytes(spec: ModelSpec, workload: Workload, span: tuple[float, float] | None) -> tuple[float, float]:
    """The least and the most VRAM of a drawn fleet: ``span`` in GiB, or one block to all blocks."""
    if span is None:
        low, high = psi_client_bytes(spec, workload, [1, spec.num_blocks])
        return float(low), float(high)
    low, high = span
    if not 0 <= low <= high <= MAX_VRAM_GIB or high == 0:
        raise InvalidInputError(f"span is {low:g} to {high:g} GiB; it must rise, and end above 0 and below 1e6")
    return max(low, _LEAST_GIB) * GIB, max(high, _LEAST_GIB) * GIB


def _rng(clients: int, seed: int) -> np.random.Generator:
    check_clients(clients)
    if seed < 0:
        raise InvalidInputError(f"seed is {seed}; it must be at least 0")
    return np.random.default_rng(seed)


def _check_share(what: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise InvalidInputError(f"{what} is {value}; it must be between 0 and 1")


# Reading a table of clients.

_UNIT = re.compile(r"\s*(GiB|GB|MiB)\s*$", re.IGNORECASE)
_NVIDIA_SMI, _MIB = "memory_total_mib", re.compile(r"\d+ MiB")
_BARE_NUMBERS = re.compile(rb"(?:\xef\xbb\xbf)?[\s,;]*\d[\d.\s,;]*")
_NVIDIA_SMI_FAILED = ("Failed to initialize NVML", "NVIDIA-SMI has failed", "No devices were found")
_WANT = "give a table with columns client,vram_gib"
_QUERY = "run nvidia-smi --query-gpu=name,memory.total --format=csv"


def _content(source: str | os.PathLike[str]) -> bytes:
    if not os.path.isfile(source):
        raise MissingDataError(f"fleet {str(source)!r} is not a file; {_WANT}")
    return Path(source).read_bytes()


def _clients_of(header: Sequence[str], rows: Sequence[Sequence[object]]) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Names and GiB of the clients in a table's rows."""
    from zorba_core.tables import is_empty  # slow to load

    columns = [re.sub(r"[^a-z0-9]+", "_", column.lower()).strip("_") for column in header]
    if _NVIDIA_SMI in columns:  # other columns of a query, such as index or uuid, say nothing of the size
        known = (*SIZE_COLUMNS, *NAME_COLUMNS, COUNT_COLUMN)
        columns = [column if column in known else "" for column in columns]
    sizes = [column for column in columns if column in SIZE_COLUMNS]
    if not sizes and any(_MIB.fullmatch(column.strip()) for column in header):
        raise InvalidInputError(f"line 1 is {in_short(', '.join(header))}, not the names of columns; {_QUERY}")
    if not sizes and any(column.startswith("memory_") and column.endswith("_mib") for column in columns):
        raise InvalidInputError(f"columns are {', '.join(map(str.strip, header))}, without memory.total; {_QUERY}")
    named = [column for column in columns if column in NAME_COLUMNS]
    counted = columns.count(COUNT_COLUMN)
    unknown = len(columns) - len(sizes) - len(named) - counted - (columns.count("") if _NVIDIA_SMI in columns else 0)
    if len(sizes) != 1 or len(named) > 1 or counted > 1 or unknown:
        shown = name_some([in_short(column.strip())[1:-1] or "(no name)" for column in header], 8)
        raise InvalidInputError(f"columns are {shown or 'none'}; give vram_gib and, if you like, client or clients")
    in_mib = sizes == [_NVIDIA_SMI]
    names, gib_N = [], []
    for number, cells in enumerate(rows, start=1):
        size = cells[columns.index(sizes[0])]
        name = cells[columns.index(named[0])] if named else None
        client = "" if is_empty(name) else str(name).strip()
        if is_empty(size) and not client:
            continue
        label = f"row {number}" + (f" (client {in_short(client)})" if client else "")
        value = _gib(label, size, sizes[0])
        for _ in range(_count(label, cells[columns.index(COUNT_COLUMN)]) if counted else 1):
            names.append(client or f"client-{len(names)}")
            gib_N.append(value)
    if not names:
        raise InvalidInputError("the fleet has no rows; give each client a row with its VRAM in GiB")
    repeated = {client for client, count in Counter(names).items() if count > 1}
    if repeated and not (in_mib or counted or named == ["gpu"]):
        raise InvalidInputError(
            f"client {in_short(min(repeated, key=names.index))} occurs twice; give each its own name"
        )
    place: Counter[str] = Counter()
    for index, client in enumerate(names):  # number cards of one kind, or several clients of one row
        place[client] += 1
        names[index] = f"{client} #{place[client]}" if client in repeated else client
    return tuple(names), np.array(gib_N)


def _gib(label: str, cell: object, column: str) -> float:
    """The GiB of a cell; a unit in it, such as ``24564 MiB`` of ``nvidia-smi``, comes before its column's."""
    in_mib, unit = column == _NVIDIA_SMI, _UNIT.search(str(cell))
    try:
        value = float(_UNIT.sub("", str(cell))) * SIZE_COLUMNS[unit[1].lower() if unit else column]
    except (TypeError, ValueError, OverflowError):
        text = cell.strip() if isinstance(cell, str) else ""
        comma = re.fullmatch(r"\d+,\d+", text)
        such = f"with a decimal point, {text.replace(',', '.')}" if comma else "such as 24"
        wanted = "a size such as 24564 MiB" if in_mib else f"a number of GiB, {such}"
        raise InvalidInputError(f"{label}: its VRAM is {in_short(cell)}; it must be {wanted}") from None
    if not 0 < value <= MAX_VRAM_GIB:
        raise InvalidInputError(
            f"{label}: its VRAM is {in_short(cell)}; it must be a finite number above 0 and at most {MAX_VRAM_GIB:g}"
        )
    return value


def _count(label: str, cell: object) -> int:
    """The number of clients of a row."""
    text = str(cell).strip().removesuffix(".0")
    if not text.isdecimal() or int(text) > MAX_CLIENTS:
        raise InvalidInputError(f"{label}: clients is {in_short(cell)}; it must be a whole number up to {MAX_CLIENTS}")
    return int(text)
