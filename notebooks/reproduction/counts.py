"""Tables I and II as printed, and counts to check their cells with. No torch.

Divided by clients and rounds, Table II's communication is numbers per client and round: 2d for FedIT and FedZO, as
the text states; 15 and 27 for DeComFL; 18 to 29 for ZorBA. :func:`matching` tries every plausible way of counting the
protocol's messages with every number of directions up to ``MOST_DIRECTIONS``, and returns those that give every cell
of a method's column. Every match for DeComFL amounts to M + 3 numbers, where the text has one seed, one scalar and one
average. For ZorBA nothing matches at any single Q, even if the number of different averages is free in every cell.

Shapes: M blocks, N clients, P shared seeds, Q directions, k blocks of a client on average, T rounds.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from zorba_core.engine.communication import run_communication
from zorba_core.engine.parts import method_facts
from zorba_core.vram import GIB, ModelSpec, Workload, model_spec, psi_block_bytes

NUM_CLIENTS, BATCH_SIZE, NUM_SEEDS = 50, 8, 4096
MOST_DIRECTIONS = 50
METHODS: Mapping[str, str] = {"zorba": "ZorBA", "fedit": "FedIT", "fedzo": "FedZO", "decomfl": "DeComFL"}
TOLERANCE_GIB = 0.05
_HALF_DIGIT = 0.005  # of a cell in GiB


@dataclass(frozen=True)
class PaperRow:
    """One row of Tables I and II; ``rounds``, ``gib`` and ``sent`` are by method. The paper does not print L: these
    lengths reproduce the baselines' VRAM. ``total_blocks`` is computed from ZorBA's VRAM cell."""

    preset: str  # of zorba_core.vram
    dataset: str
    seq_len: int
    total_blocks: int
    rounds: Mapping[str, int]
    gib: Mapping[str, float]  # all clients
    sent: Mapping[str, str]  # numbers, all clients, three digits

    @property
    def model(self) -> ModelSpec:
        return model_spec(self.preset)

    @property
    def workload(self) -> Workload:
        return Workload(batch_size=BATCH_SIZE, seq_len=self.seq_len)

    @property
    def parameters(self) -> float:
        """d, by the communication cells of FedIT and FedZO."""
        return {"opt-125m": 125e6, "opt-1.3b": 1.3e9}[self.preset]

    @property
    def all_blocks(self) -> int:
        return NUM_CLIENTS * self.model.num_blocks

    def client_rounds(self, method: str) -> int:
        return NUM_CLIENTS * self.rounds[method]

    def sent_bounds(self, method: str) -> tuple[float, float]:
        """Least and most numbers per client and round whose total is printed as it is."""
        value, half = float(self.sent[method]), 0.005 * 10 ** int(self.sent[method].split("e")[1])
        return (value - half) / self.client_rounds(method), (value + half) / self.client_rounds(method)


def _row(preset: str, dataset: str, seq_len: int, blocks: int, rounds: tuple, gib: tuple, sent: str) -> PaperRow:
    columns = (rounds, gib, sent.split())
    return PaperRow(preset, dataset, seq_len, blocks, *(dict(zip(METHODS, each, strict=True)) for each in columns))


_S, _L = "opt-125m", "opt-1.3b"
TABLE: tuple[PaperRow, ...] = (  # columns ZorBA, FedIT, FedZO, DeComFL
    _row(_S, "AG-News", 128, 200, (138, 49, 155, 181), (47.31, 118.67, 95.37, 95.37), "1.24e5 6.13e11 1.94e12 1.36e5"),
    _row(_S, "SST-2", 128, 300, (167, 70, 161, 205), (59.32, 118.67, 95.37, 95.37), "1.67e5 8.75e11 2.01e12 1.54e5"),
    _row(_S, "SNLI", 256, 450, (231, 112, 255, 246), (131.39, 190.74, 167.44, 167.44), "2.43e5 1.40e12 3.19e12 1.85e5"),
    _row(
        _L, "AG-News", 128, 375, (61, 23, 79, 68), (538.04, 1431.17, 1189.03, 1189.03), "7.93e4 2.99e12 1.03e13 9.18e4"
    ),
    _row(
        _L, "SST-2", 128, 700, (99, 48, 104, 104), (794.49, 1431.17, 1189.03, 1189.03), "1.34e5 6.24e12 1.35e13 1.40e5"
    ),
    _row(
        _L,
        "SNLI",
        256,
        850,
        (157, 82, 186, 173),
        (1583.55, 2378.05, 2315.90, 2315.90),
        "2.27e5 1.07e13 2.42e13 2.34e5",
    ),
)


# --- VRAM ------------------------------------------------------------------------------------------------


def cell_gib(row: PaperRow, method: str) -> float:
    """One VRAM cell of Table II by the paper's own model."""
    blocks = row.total_blocks if method == "zorba" else None
    return method_facts(method).total_bytes(row.model, row.workload, NUM_CLIENTS, blocks) / GIB


def acceptance_share(row: PaperRow) -> float:
    """The share of arbitrary numbers that lie within the tolerance of a whole number of activated blocks. Two such
    numbers are one block apart."""
    return min(1.0, 2 * TOLERANCE_GIB * GIB / psi_block_bytes(row.model, row.workload))


def common_parameters(preset: str, zorba: bool) -> tuple[float, float]:
    """Least and largest d that give all of ZorBA's cells of a model, or all of the baselines' without the misprint, to
    the last printed digit; empty if low > high."""
    low, high = 0.0, np.inf
    for row in TABLE:
        for method, printed in row.gib.items():
            if row.preset != preset or (method == "zorba") != zorba or abs(cell_gib(row, method) - printed) > 1:
                continue
            blocks = row.total_blocks if zorba else row.all_blocks
            activations = blocks * psi_block_bytes(row.model, row.workload) / GIB
            copies = NUM_CLIENTS * (2 if method == "fedit" else 1) * row.workload.bytes_per_number
            low = max(low, (printed - _HALF_DIGIT - activations) * GIB / copies)
            high = min(high, (printed + _HALF_DIGIT - activations) * GIB / copies)
    return low, high


def forward_peak_bytes(model: ModelSpec, workload: Workload) -> float:
    """Peak of the activations in a forward pass of one decoder block: the residual, the feed-forward input, its alpha
    times wider middle, and its output: (alpha + 3) B L H numbers. Blocks run one after the other, so the peak is the
    same for any number of activated blocks."""
    numbers = (model.ffn_ratio + 3) * workload.batch_size * workload.seq_len * model.hidden_size
    return numbers * workload.bytes_per_number


# --- communication ---------------------------------------------------------------------------------------


def sent_by_text(row: PaperRow, method: str) -> float:
    """Numbers sent in all the row's rounds, by the paper's text and its directions a round. The P seeds are left out,
    in the paper's favour."""
    facts = method_facts(method)
    if facts.exchanges != "scalars":
        return 2.0 * row.parameters * row.client_rounds(method)
    A_MN = np.ones((row.model.num_blocks, NUM_CLIENTS), bool)
    rounds, reports = row.rounds[method], row.client_rounds(method)
    sent = run_communication(method, A_MN, rounds=rounds, reports=reports, num_directions=facts.default_directions)
    return float(sent.total("paper"))


class _Case(NamedTuple):
    Q: int
    M: int
    T: int
    k: float  # blocks of a client, on average


_Term = Callable[[_Case], float]  # numbers per client and round
_Group = Mapping[str, _Term]

# A way of counting takes one term from each group. "once" means once for all clients.
AVERAGES: _Group = {
    "no averages": lambda c: 0,
    "Q averages": lambda c: c.Q,
    "Q averages, once": lambda c: c.Q / NUM_CLIENTS,
    "Q averages a block": lambda c: c.Q * c.M,
    "Q averages a block, once": lambda c: c.Q * c.M / NUM_CLIENTS,
    "Q averages for each of the client's blocks": lambda c: c.Q * c.k,
    "all clients' Q scalars": lambda c: c.Q * NUM_CLIENTS,
}
OTHERS: tuple[_Group, ...] = (
    {"no seeds": lambda c: 0, "Q seeds": lambda c: c.Q, "Q seeds, once": lambda c: c.Q / NUM_CLIENTS},
    {"Q scalars": lambda c: c.Q, "Q + 1 losses": lambda c: c.Q + 1, "2 Q losses": lambda c: 2 * c.Q},
    {
        "no mask": lambda c: 0,
        "M flags": lambda c: c.M,
        "2 M flags": lambda c: 2 * c.M,
        "the client's block numbers": lambda c: c.k,
        "M flags before the first round": lambda c: c.M / c.T,
        "all of A before the first round": lambda c: c.M * NUM_CLIENTS / c.T,
    },
    {
        "no shared seeds": lambda c: 0,
        "P seeds": lambda c: NUM_SEEDS / c.T,
        "P seeds, once": lambda c: NUM_SEEDS / (NUM_CLIENTS * c.T),
    },
    {"nothing else": lambda c: 0, "the loss": lambda c: 1, "a round number each way": lambda c: 2},
)


@dataclass(frozen=True)
class Convention:
    """A way of counting that gives every cell of a column."""

    num_directions: int
    terms: tuple[str, ...]
    per_client_round: tuple[float, ...] = ()  # for each cell; empty where the averages are free


def matching(method: str, *, free_averages: bool = False) -> tuple[Convention, ...]:
    """Every way of counting, with one Q for all six cells, whose totals round to all of the method's printed ones.

    ``free_averages``: each cell may have Q averages for any number of kinds of blocks from 1 to M, since the paper does
    not print its matrices.
    """
    groups = OTHERS if free_averages else (*OTHERS[:2], AVERAGES, *OTHERS[2:])
    ways = list(itertools.product(*groups))
    matches = []
    for Q in range(1, MOST_DIRECTIONS + 1):
        counts, fits = [], np.ones(len(ways), bool)
        for row in TABLE:
            case, (low, high) = _case(row, method, Q), row.sent_bounds(method)
            terms = ([term(case) for term in group.values()] for group in groups)
            counts.append(functools.reduce(np.add.outer, terms).ravel())  # in the order of ``ways``
            averages = Q * np.arange(1, case.M + 1) if free_averages else np.zeros(1)
            sent = counts[-1][:, None] + averages
            fits &= ((low <= sent) & (sent <= high)).any(axis=1)
        for i in np.flatnonzero(fits):
            per_client_round = () if free_averages else tuple(float(count[i]) for count in counts)
            matches.append(Convention(Q, ways[i], per_client_round))
    return tuple(matches)


def _case(row: PaperRow, method: str, Q: int) -> _Case:
    M = row.model.num_blocks
    k = row.total_blocks / NUM_CLIENTS if method == "zorba" else M
    return _Case(Q, M, row.rounds[method], k)
