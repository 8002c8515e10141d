"""Fleets for the pages: their clients, the VRAM model, and the curves of Λ against VRAM. No Streamlit.

Shapes: M blocks, N clients (in the order of the fleet), P points of a curve (rising VRAM).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from zorba_core.allocation import (
    SOLVERS,
    Allocation,
    Front,
    Problem,
    Solution,
    solve,
    sweep,
    water_filled_bound,
)
from zorba_core.allocation.fronts import sweep_totals
from zorba_core.errors import InfeasibleError, InvalidInputError, name_some
from zorba_core.fleet import Fleet
from zorba_core.vram import GIB, PRESETS, Workload, model_spec, psi_block_bytes, psi_model_bytes

if TYPE_CHECKING:
    from app.scenario import Scenario

POINTS = 200  # reductions of a sweep by the paper's method
_SHOWN = 120  # points of a curve, at most
_TOTALS = {"two-level": 60, "exact": 12}  # points of a curve over limits on the total
MOST_CLIENTS, MOST_GIB = 10_000, 1_000_000  # of a list; a figure of more clients takes seconds
_SECONDS = {"two-level": 5.0, "exact": 0.25}  # time limit of a point


@dataclass(frozen=True)
class Needs:
    """VRAM that a client needs, in GiB."""

    num_blocks: int
    model_gib: float
    block_gib: float

    @property
    def one_gib(self) -> float:
        """For the model and one block."""
        return self.model_gib + self.block_gib

    @property
    def all_gib(self) -> float:
        """For the model and all blocks."""
        return self.model_gib + self.num_blocks * self.block_gib

    def blocks(self, gib_N: NDArray[np.float64]) -> NDArray[np.int64]:
        """Whole blocks that fit each client, 0 to M."""
        return np.clip(np.floor((gib_N - self.model_gib) / self.block_gib + 1e-9), 0, self.num_blocks).astype(int)


def methods() -> dict[str, str]:
    """Title of each curve: the bound, the paper's method, and the other solvers that are registered."""
    others = {name: solver.title for name, solver in SOLVERS.items() if name not in ("balanced", "lexicographic")}
    return {"bound": "Lower bound", "paper": "Paper's method", **others}


def models() -> tuple[str, ...]:
    """Names of the models whose VRAM is known."""
    return tuple(PRESETS)


@lru_cache(maxsize=256)
def needs(model: str, batch: int, length: int, precision: str) -> Needs:
    """VRAM that a client needs by the paper's model."""
    spec, work = model_spec(model), Workload(batch_size=batch, seq_len=length, dtype=precision)
    return Needs(spec.num_blocks, psi_model_bytes(spec, work) / GIB, psi_block_bytes(spec, work) / GIB)


def usual_sizes(needs: Needs) -> dict[str, float]:
    """Default sizes of small, medium and large GPUs in GiB: room for two blocks, for about half, and for all."""
    digits = 2 if needs.all_gib < 10 else 1
    low, high = needs.one_gib + needs.block_gib, needs.all_gib + 0.5 * 10**-digits
    return {"low": round(low, digits), "mid": round((low + high) / 2, digits), "high": round(high, digits)}


def usual_rows(needs: Needs) -> tuple[tuple[float, int], ...]:
    """The default list of clients."""
    return tuple(zip(usual_sizes(needs).values(), (20, 20, 10), strict=True))


def gib_of(scenario: Scenario) -> NDArray[np.float64]:
    """VRAM of each client in GiB, (N,), including the clients that are too small."""
    need, count, seed = scenario.needs, scenario.clients, scenario.seed
    sizes = {name: getattr(scenario, name) or usual for name, usual in usual_sizes(need).items()}
    if scenario.shape == "list":
        rows = scenario.rows or usual_rows(need)
        return np.repeat([gib for gib, _ in rows], [clients for _, clients in rows]).astype(float)
    if scenario.shape == "gpus":
        share = scenario.card / 100
        return Fleet.gpus(scenario.model, count, mix=scenario.mix, share=share, seed=seed).capacity_N_gib
    kinds = {"small_gib": sizes["low"], "large_gib": sizes["high"], "seed": seed}
    if scenario.shape == "two":
        return Fleet.two_kinds(scenario.model, count, large_share=scenario.large / 100, **kinds).capacity_N_gib
    if scenario.shape == "three":
        small = round(count * scenario.cuts[0] / 100)
        large = min(count - small, round(count * (100 - scenario.cuts[1]) / 100))
        shares = [large / count, (count - small - large) / count]
        three = [sizes["high"], sizes["mid"], sizes["low"]]
        return Fleet.kinds(scenario.model, count, three, shares, seed=seed).capacity_N_gib
    low, high = scenario.span or (need.one_gib, need.all_gib)
    rng = np.random.default_rng(seed)
    if scenario.shape == "uniform":
        return rng.uniform(low, high, count)
    width = max(high - low, 1e-9)
    if scenario.shape == "bell":
        return low + width / 2 + width / 5 * _truncated_normal(rng, -2.5, 2.5, count)
    floor = max(low, 1e-3)
    centre, spread = np.log(floor + width / 4), 0.6
    ends = ((np.log(end) - centre) / spread for end in (floor, floor + width))
    return np.exp(centre + spread * _truncated_normal(rng, *ends, count))


def _truncated_normal(rng: np.random.Generator, low: float, high: float, count: int) -> NDArray[np.float64]:
    """Standard normal numbers between ``low`` and ``high``."""
    return ndtri(rng.uniform(ndtr(low), ndtr(high), count))


def rows_of_file(content: bytes) -> tuple[tuple[float, int], ...]:
    """GiB and clients of an uploaded table, the smallest first.

    Raises:
        ZorbaError: it is no table of clients, or has too many clients.
    """
    gib_N = Fleet.from_csv(content, "opt-125m").capacity_N_gib
    if len(gib_N) > MOST_CLIENTS or gib_N.max() > MOST_GIB:
        raise InvalidInputError(
            f"uploaded table: {len(gib_N):,} clients of up to {gib_N.max():,.0f} GiB; this page takes at most "
            f"{MOST_CLIENTS:,} clients of {MOST_GIB:,} GiB"
        )
    counts = Counter(np.maximum(np.round(gib_N, 3), 0.001).tolist())
    return tuple(sorted(counts.items()))


@dataclass(frozen=True, eq=False)
class Curve:
    """The curve of a method: P points with rising VRAM and falling Λ."""

    method: str
    gib_P: NDArray[np.float64]  # over all clients
    lambda_P: NDArray[np.float64]
    least_P: NDArray[np.int64]  # smallest popularity of a block
    bound_P: NDArray[np.float64]  # no allocation of the point's budgets and total has a lower Λ
    index_P: NDArray[np.int64]  # in the front
    front: Front | None
    solutions: tuple[Solution, ...] = ()  # of solvers that take seconds

    def at(self, spend: float) -> int:
        """The last point with at most ``spend`` GiB."""
        return max(0, int(np.searchsorted(self.gib_P, spend + 0.005, side="right")) - 1)

    def solution(self, point: int) -> Solution:
        """The allocation of a point."""
        index = int(self.index_P[point])
        return self.solutions[index] if self.solutions else self.front.solution(index)


@dataclass(frozen=True, eq=False)
class Study:
    """A fleet and its curves. Clients that are too small for one block are left out and counted."""

    scenario: Scenario
    all_N_gib: NDArray[np.float64]

    @cached_property
    def needs(self) -> Needs:
        return self.scenario.needs

    @cached_property
    def gib_N(self) -> NDArray[np.float64]:
        """VRAM of the clients that take part."""
        return self.all_N_gib[self.needs.blocks(self.all_N_gib) >= 1]

    @cached_property
    def fleet(self) -> Fleet:
        """The clients that take part, with the model and the workload."""
        names = tuple(f"client-{n}" for n in range(len(self.gib_N)))
        return Fleet(names, self.gib_N * GIB, model_spec(self.scenario.model), _workload(self.scenario))

    @cached_property
    def budget_N(self) -> NDArray[np.int64]:
        return self.needs.blocks(self.gib_N)

    @property
    def too_small(self) -> int:
        return len(self.all_N_gib) - len(self.gib_N)

    @property
    def problem(self) -> str:
        """Why there is no curve, as a sentence; empty where there is one."""
        need = self.needs
        if not len(self.all_N_gib):
            return "Add a row with GiB and a number of clients."
        if not len(self.gib_N):
            return f"Every client is too small: the model and one block need {need.one_gib:.2f} GiB."
        if (short := need.num_blocks - int(self.budget_N.sum())) > 0:
            held = f"All clients together hold {self.budget_N.sum()} blocks, {short} fewer than the model has"
            return f"{held}: add clients or VRAM."
        return ""

    @cached_property
    def order_N(self) -> NDArray[np.int64]:
        """Clients from the largest VRAM to the smallest."""
        return np.argsort(-self.gib_N, kind="stable")

    @property
    def total_gib(self) -> float:
        return float(self.gib_N.sum())

    def used_gib(self, allocation: Allocation) -> float:
        """VRAM that an allocation uses over all clients."""
        return len(self.gib_N) * self.needs.model_gib + allocation.total_blocks * self.needs.block_gib

    def complaints(self, allocation: Allocation) -> list[str]:
        """Why this matrix cannot be trained, a sentence for each reason."""
        result, held_N = [], allocation.blocks_held_N
        if over := np.flatnonzero(held_N > self.budget_N).tolist():
            room = ", ".join(f"client {n} has {held_N[n]} and room for {self.budget_N[n]}" for n in over[:3])
            result.append(f"Too many blocks for the VRAM: {room}{' and more' if len(over) > 3 else ''}.")
        if (idle := np.flatnonzero(held_N == 0)).size:
            result.append(f"Without a block: client {name_some(idle.tolist())}.")
        if (unused := np.flatnonzero(allocation.popularity_M == 0)).size:
            result.append(f"Trained by nobody: block {name_some(unused.tolist())}.")
        return result

    def point(self, method: str, spend: float | None) -> int:
        """The last point of a curve with at most ``spend`` GiB; for None, as much as the paper's curve takes a third of
        the way along."""
        if spend is None:
            gib_P = self.curve("paper").gib_P
            spend = float(gib_P[len(gib_P) // 3])
        return self.curve(method).at(spend)

    def bound_at(self, spend: float) -> float:
        """A lower bound on Λ with ``spend`` GiB."""
        free = spend - len(self.gib_N) * self.needs.model_gib
        total = int(np.floor(free / self.needs.block_gib + 1e-6))
        least = max(self.needs.num_blocks, len(self.gib_N))
        return water_filled_bound(Problem(self.budget_N, self.needs.num_blocks, max(total, least)))

    def is_known(self, method: str) -> bool:
        """Whether the curve is computed already."""
        return method in self._curves

    def curve(self, method: str) -> Curve:
        """The curve of one of :func:`methods`; each is computed once."""
        if method not in self._curves:
            self._curves[method] = self._bound() if method == "bound" else self._reached(method)
        return self._curves[method]

    @cached_property
    def _curves(self) -> dict[str, Curve]:
        return {}

    def _reached(self, method: str) -> Curve:
        seed = self.scenario.seed
        solutions: list[Solution] = []
        if method == "paper":
            front = sweep(self.fleet, POINTS, "balanced", tau_mode="vector", seed=seed)
        else:
            options = {"time_limit": _SECONDS.get(method, 1.0), "seed": seed, "on_solution": solutions.append}
            least, most = max(self.needs.num_blocks, len(self.gib_N)), int(self.budget_N.sum())
            totals = np.unique(np.geomspace(least, most, _TOTALS.get(method, 20)).round().astype(int)).tolist()
            front = sweep_totals(self.fleet, totals, method, **options)
        index = front.order_F
        if len(index) > _SHOWN:
            index = index[np.linspace(0, len(index) - 1, _SHOWN).round().astype(int)]
        gib_P = len(self.gib_N) * self.needs.model_gib + front.total_blocks_E[index] * self.needs.block_gib
        at_P = (front.bias_lambda_E[index], front.min_popularity_E[index], front.lower_bound_E[index], index)
        return Curve(method, gib_P, *at_P, front, tuple(solutions))

    def _bound(self) -> Curve:
        least, most = max(self.needs.num_blocks, len(self.gib_N)), int(self.budget_N.sum())
        totals = np.unique(np.linspace(least, most, min(120, most - least + 1)).round().astype(int))
        values = [water_filled_bound(Problem(self.budget_N, self.needs.num_blocks, int(total))) for total in totals]
        gib_P = len(self.gib_N) * self.needs.model_gib + totals * self.needs.block_gib
        bound_P = np.array(values)
        return Curve("bound", gib_P, bound_P, totals // self.needs.num_blocks, bound_P, totals, None)


def _workload(scenario: Scenario) -> Workload:
    return Workload(batch_size=scenario.batch, seq_len=scenario.length, dtype=scenario.precision)


@lru_cache(maxsize=64)
def study(fleet: Scenario) -> Study:
    """The study of a scenario's ``fleet``; the last 64 are cached."""
    return Study(fleet, gib_of(fleet))


def rescued(scenario: Scenario) -> dict[str, object]:
    """The change that gives the smallest client one block, such as ``{"batch": 4}``; empty where none does."""
    smallest = float(gib_of(scenario).min(initial=np.inf))
    for changes in _smaller(scenario):
        if scenario.replace(**changes).needs.one_gib <= smallest:
            return changes
    return {}


def _smaller(scenario: Scenario) -> Iterator[dict[str, object]]:
    """Changes that take less VRAM, the gentlest first."""
    batch, length = scenario.batch, scenario.length
    yield from ({"batch": batch // 2**power} for power in range(1, 10) if batch >= 2**power)
    yield from ({"batch": 1, "length": length // 2**power} for power in range(1, 7) if length >= 8 * 2**power)
    yield {"precision": "bfloat16"}
    yield {"precision": "bfloat16", "batch": 1}


def planned(scenario: Scenario) -> tuple[Study, Solution, Allocation]:
    """The fleet, the allocation at the point of the page Explore, and this allocation with the cells changed by hand.

    Raises:
        InfeasibleError: the fleet has no allocation.
    """
    chosen = study(scenario.fleet)
    if chosen.problem:
        raise InfeasibleError(chosen.problem)
    curve = chosen.curve(scenario.follow)
    solution = curve.solution(chosen.point(scenario.follow, scenario.spend))
    return chosen, solution, edited(solution, scenario.flips)


def edited(solution: Solution, flips: str) -> Allocation:
    """The matrix of ``solution`` with cells changed: ``block.client`` joined by ``_``. A cell outside is ignored."""
    if not flips:
        return solution.allocation
    A_MN = np.array(solution.allocation.A_MN)
    for block, client in cells_of(flips):
        if block < A_MN.shape[0] and client < A_MN.shape[1]:
            A_MN[block, client] ^= True
    return Allocation(A_MN)


def cells_of(flips: str) -> list[tuple[int, int]]:
    """Pairs of block and client."""
    pairs = [part.split(".") for part in flips.split("_")]
    return [(int(pair[0]), int(pair[1])) for pair in pairs if len(pair) == 2 and all(part.isdecimal() for part in pair)]


def flips_of(before: Allocation, A_MN: NDArray[np.bool_]) -> str:
    """The cells in which ``A_MN`` differs, as :func:`edited` reads them."""
    return "_".join(f"{block}.{client}" for block, client in np.argwhere(before.A_MN != A_MN))


def for_training(allocation: Allocation, num_blocks: int, clients: int) -> Allocation:
    """The allocation for a model of ``num_blocks`` blocks and some of the fleet's clients: from the one with the
    fewest blocks to the one with the most, in even steps. Each trains the same share as before, at least one block.

    Raises:
        ZorbaError: there are fewer clients, or together they hold fewer blocks than the model has.
    """
    if clients > allocation.num_clients:
        raise InvalidInputError(f"the fleet has {allocation.num_clients} clients; choose at least {clients} on Explore")
    if (allocation.num_blocks, allocation.num_clients) == (num_blocks, clients):
        return allocation
    share_N = allocation.blocks_held_N / allocation.num_blocks
    steps = np.linspace(0, allocation.num_clients - 1, clients).round().astype(int)
    share_N = share_N[np.sort(np.argsort(share_N, kind="stable")[steps])]
    held_N = np.clip(np.round(share_N * num_blocks), 1, num_blocks).astype(int)
    if held_N.sum() < num_blocks:
        raise InvalidInputError(
            f"{clients} of the fleet's clients train {held_N.sum()} of the model's {num_blocks} blocks; choose more"
        )
    return solve(Problem(held_N, num_blocks)).allocation
