"""Fleets for the pages: their clients, the VRAM model, and what the core's methods reach. No Streamlit.

Shapes: M blocks, N clients (in the order of the fleet), P points of a curve (rising VRAM).
"""

from __future__ import annotations

import importlib
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from app.scenario import MOST_CLIENTS, MOST_GIB, SHAPES, Scenario
from zorba_core.allocation import Allocation, Problem, Solution, solve, sweep, water_filled_bound
from zorba_core.errors import InfeasibleError, InvalidInputError, name_some
from zorba_core.fleet import MIXES, Fleet
from zorba_core.vram import GIB, Workload, model_spec, psi_block_bytes, psi_model_bytes

CURVE_POINTS = 120  # reductions of the sweep by the paper's method
_SECONDS = 3.0  # time limit of a solver that searches
_FORGOTTEN_S = 6.0  # a curve that no page has asked for since is given up
_POOL = ThreadPoolExecutor(2, "solve")  # a curve must not delay the answer at the point
_WARM: list[Future[object]] = []


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


@lru_cache(maxsize=256)
def needs(model: str, batch: int, length: int, precision: str) -> Needs:
    """VRAM that a client needs by the paper's model."""
    spec, work = model_spec(model), Workload(batch_size=batch, seq_len=length, dtype=precision)
    return Needs(spec.num_blocks, psi_model_bytes(spec, work) / GIB, psi_block_bytes(spec, work) / GIB)


def needs_of(scenario: Scenario) -> Needs:
    """:func:`needs` of a scenario's model and workload."""
    return needs(scenario.model, scenario.batch, scenario.length, scenario.precision)


def usual_sizes(needs: Needs) -> dict[str, float]:
    """Default sizes of small, medium and large GPUs in GiB: room for two blocks, for about half, and for all."""
    digits = 2 if needs.all_gib < 10 else 1
    low, high = needs.one_gib + needs.block_gib, needs.all_gib + 0.5 * 10**-digits
    return {"low": round(low, digits), "mid": round((low + high) / 2, digits), "high": round(high, digits)}


def usual_rows(needs: Needs) -> tuple[tuple[float, int], ...]:
    """The default list of clients."""
    return tuple(zip(usual_sizes(needs).values(), (20, 20, 10), strict=True))


def draw_of(scenario: Scenario) -> list[float] | list[int]:
    """The random part of a fleet, from which the browser makes the clients while a control moves: uniform numbers, the
    order of the kinds, or the GiB of the drawn GPUs."""
    clients, rng = scenario.clients, np.random.default_rng(scenario.seed)
    if scenario.shape == "gpus":
        return Fleet.gpus(scenario.model, clients, mix=scenario.mix, seed=scenario.seed).capacity_N_gib.tolist()
    if scenario.shape in ("two", "three"):
        return rng.permutation(clients).tolist()
    return [] if scenario.shape == "list" else rng.random(clients).tolist()


def drawn_gib(scenario: Scenario) -> NDArray[np.float64]:
    """VRAM of each client in GiB, (N,), before bars are changed by hand."""
    need, clients = needs_of(scenario), scenario.clients
    sizes = {name: getattr(scenario, name) or usual for name, usual in usual_sizes(need).items()}
    where = (scenario.model, clients)
    more = {"seed": scenario.seed, "workload": _workload(scenario)}
    if scenario.shape == "list":
        rows = scenario.rows or usual_rows(need)
        return np.repeat([gib for gib, _ in rows], [count for _, count in rows]).astype(float)
    if scenario.shape == "gpus":
        return Fleet.gpus(*where, mix=scenario.mix, share=scenario.card / 100, **more).capacity_N_gib
    if scenario.shape == "two":
        kinds = {"small_gib": sizes["low"], "large_gib": sizes["high"], "large_share": scenario.large / 100}
        return Fleet.two_kinds(*where, **kinds, **more).capacity_N_gib
    if scenario.shape == "three":
        small = round(clients * scenario.cuts[0] / 100)
        large = min(clients - small, round(clients * (100 - scenario.cuts[1]) / 100))
        three = [sizes["high"], sizes["mid"], sizes["low"]]
        return Fleet.kinds(*where, three, [large / clients, (clients - small - large) / clients], **more).capacity_N_gib
    draw = {"uniform": Fleet.uniform, "bell": Fleet.normal, "small": Fleet.lognormal}[scenario.shape]
    return draw(*where, span=scenario.span, **more).capacity_N_gib


def gib_of(scenario: Scenario) -> NDArray[np.float64]:
    """VRAM of each client in GiB, (N,), including the clients that are too small."""
    gib_N = drawn_gib(scenario).copy()
    for client, gib in scenario.bars:
        if client < len(gib_N):
            gib_N[client] = gib
    return gib_N


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


def name_of(scenario: Scenario) -> str:
    """The fleet's name in tables."""
    need = needs_of(scenario)
    usual = usual_sizes(need)
    sizes = {name: getattr(scenario, name) or usual[name] for name in usual}
    if scenario.shape == "gpus":
        what = MIXES[scenario.mix].title
    elif scenario.shape == "two":
        what = f"Two kinds {sizes['low']:g}/{sizes['high']:g}, {scenario.large}%"
    elif scenario.shape == "three":
        what = f"Three kinds {sizes['low']:g}/{sizes['mid']:g}/{sizes['high']:g}"
    elif scenario.shape == "list":
        what = f"My list ({len(gib_of(scenario))})"
    else:
        low, high = scenario.span or (need.one_gib, need.all_gib)
        digits = 2 if high < 10 else 1
        what = f"{SHAPES[scenario.shape]} {low:.{digits}f}–{high:.{digits}f}"
    return f"{what}, changed by hand" if scenario.bars else what


def warm_up() -> None:
    """Load what the first answer needs, in the background."""
    if not _WARM:
        _WARM.append(_POOL.submit(importlib.import_module, "networkx.algorithms.flow"))


class _Superseded(Exception):
    """Nobody waits for the result any more."""


@dataclass(frozen=True, eq=False)
class Study:
    """A fleet and what methods reach with it. Clients that are too small for one block are left out and counted."""

    scenario: Scenario
    all_N_gib: NDArray[np.float64]

    @cached_property
    def needs(self) -> Needs:
        return needs_of(self.scenario)

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
        """Why there is no allocation, as a sentence; empty where there is one."""
        need = self.needs
        if not len(self.all_N_gib):
            return "Add a row with GiB and a number of clients."
        if not len(self.gib_N):
            return f"Every client is too small: the model and one block need {need.one_gib:.2f} GiB."
        if (short := need.num_blocks - int(self.budget_N.sum())) > 0:
            held = f"All clients together hold {self.budget_N.sum()} blocks, {short} fewer than the model has"
            return f"{held}: add clients or VRAM."
        return ""

    @property
    def total_gib(self) -> float:
        return float(self.gib_N.sum())

    @property
    def least(self) -> int:
        """The least total: a block for each client, a client for each block."""
        return max(self.needs.num_blocks, len(self.gib_N))

    @property
    def most(self) -> int:
        """The total of all budgets."""
        return int(self.budget_N.sum())

    def gib(self, blocks: int) -> float:
        """VRAM of all clients with this total of blocks."""
        return len(self.gib_N) * self.needs.model_gib + blocks * self.needs.block_gib

    def used_gib(self, allocation: Allocation) -> float:
        """VRAM that an allocation uses over all clients."""
        return self.gib(allocation.total_blocks)

    def total(self, scenario: Scenario) -> int:
        """The limit on the total of blocks: the scenario's, that of an older link's GiB, or twice the least. Where
        every client has room for every block there is nothing to trade, and it is the most."""
        if scenario.total is not None:
            asked = scenario.total
        elif scenario.spend is not None:
            asked = int((scenario.spend + 0.005 - self.gib(0)) / self.needs.block_gib + 1e-9)
        elif int(self.budget_N.min()) == self.needs.num_blocks:
            asked = self.most
        else:
            asked = 2 * self.least
        return min(max(asked, self.least), self.most)

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

    def bound(self, total: int) -> float:
        """No allocation of at most ``total`` blocks has a smaller Λ."""
        return water_filled_bound(Problem(self.budget_N, self.needs.num_blocks, total))

    def solution(self, method: str, total: int) -> Solution | None:
        """The allocation of a method with at most ``total`` blocks; None if the method has none. Waits for it."""
        return self.ask(method, total).result()

    def ask(self, method: str, total: int) -> Future[Solution | None]:
        """:meth:`solution`, computed once, in the background. Gives up what waits for another total."""
        answers = self._answers
        for key, waiting in [*answers.items()]:
            if key[1] != total and waiting.cancel():
                answers.pop(key, None)
        if (method, total) not in answers:
            answers[method, total] = _POOL.submit(self._solve, method, total)
        return answers[method, total]

    @cached_property
    def _answers(self) -> dict[tuple[str, int], Future[Solution | None]]:
        return {}

    def _solve(self, method: str, total: int) -> Solution | None:
        if method == "paper":
            return self._solve_by_paper(total)
        limits = {"total": total, "time_limit": _SECONDS, "seed": self.scenario.seed}
        return solve(self.fleet, method, **limits)

    def _solve_by_paper(self, total: int) -> Solution | None:
        """The inner step of Algorithm 2 with the least reduction, the same for all clients, whose budgets add up to at
        most ``total``; None if that leaves a block without a client."""
        if self.most <= total:
            return solve(self.fleet, "lexicographic", seed=self.scenario.seed)
        low, high = 0.0, 1.0  # reductions: too many blocks, few enough
        for _ in range(50):
            tau = (low + high) / 2
            low, high = (tau, high) if self.reduced_N(tau).sum() > total else (low, tau)
        budget_N = self.reduced_N(high)
        if budget_N.sum() < self.needs.num_blocks:
            return None
        return solve(Problem(budget_N, self.needs.num_blocks), "lexicographic", seed=self.scenario.seed)

    def reduced_N(self, tau: float) -> NDArray[np.int64]:
        """Budgets of Algorithm 2 after the reduction ``tau`` of every client's VRAM; at least one block."""
        free_N = self.fleet.affordable_N(tau * self.fleet.capacity_N_bytes)
        return np.clip(free_N, 1, self.needs.num_blocks)

    def ask_curve(self) -> Future[Curve]:
        """The paper's curve, computed once, in the background, as long as somebody asks."""
        asked = self.__dict__
        asked["asked_at"] = time.monotonic()
        known = asked.get("curve")
        if known is None or (known.done() and known.exception() is not None):
            asked["curve"] = _POOL.submit(self._paper_curve)
        return asked["curve"]

    def _paper_curve(self) -> Curve:
        """Algorithm 2 as ``zorba pareto --tau-mode vector --solver lexicographic`` computes it, and no reduction."""

        def check(_: Solution) -> None:
            if time.monotonic() - self.__dict__["asked_at"] > _FORGOTTEN_S:
                raise _Superseded

        seed = self.scenario.seed
        front = sweep(self.fleet, CURVE_POINTS, "lexicographic", tau_mode="vector", seed=seed, on_solution=check)
        whole = solve(self.fleet, "lexicographic", seed=seed).allocation
        blocks_P = [*front.total_blocks_E[front.order_F].tolist(), whole.total_blocks]
        lambda_P = [*front.bias_lambda_E[front.order_F].tolist(), whole.bias_lambda]
        if len(blocks_P) > 1 and lambda_P[-1] >= lambda_P[-2]:
            blocks_P, lambda_P = blocks_P[:-1], lambda_P[:-1]
        return Curve(np.array(blocks_P), np.array(lambda_P))


@dataclass(frozen=True, eq=False)
class Curve:
    """The paper's curve: P points with rising totals of blocks and falling Λ."""

    blocks_P: NDArray[np.int64]
    lambda_P: NDArray[np.float64]


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
        if needs_of(scenario.replace(**changes)).one_gib <= smallest:
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
    Waits for a slow method.

    Raises:
        InfeasibleError: the fleet has no allocation, or the method has none with so few blocks.
    """
    chosen = study(scenario.fleet)
    if chosen.problem:
        raise InfeasibleError(chosen.problem)
    solution = chosen.solution(scenario.follow, chosen.total(scenario))
    if solution is None:
        raise InfeasibleError("the paper's method has no allocation with so few blocks; choose more on Explore")
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
    pairs = [cell.split(".") for cell in flips.split("_") if cell]
    return [(int(block), int(client)) for block, client in pairs]


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
