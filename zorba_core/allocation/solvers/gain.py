"""The allocation of largest gain Phi (:mod:`zorba_core.allocation.gain`): by enumeration where that is short, else from
many structured allocations, the best of which are improved by changing one or two clients at a time.

Phi looks at counts of shared clients alone, so clients of one budget can be exchanged: enumeration goes through the
multisets of columns. The structured allocations train the j blocks of most worth (all, unless blocks may stay idle),
each client at most k of them, dealt out in turn or by what each block still lacks.

Shapes: M blocks, N clients, K candidates.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.gain import BlockFacts, gain, gains
from zorba_core.allocation.problem import Allocation, AllocationProblem, Status
from zorba_core.allocation.solver import Answer, Solver, SolverOptions
from zorba_core.allocation.solvers.gain_improvement import BETTER, CALL, Improvement, allowed, shared

ENUMERATED = 300_000  # matrices, up to exchanges of equal clients, that are all tried
_ROOM = 4_500_000  # effort: changes of one cell looked at; 0.1 s
_STARTS = 4  # structured allocations that are improved
_MANY = 200  # clients from which on blocks are only dealt out in turn
_CHUNK = 1 << 19


def solve_gain(problem: AllocationProblem, options: SolverOptions) -> Answer:
    """The allocation of largest Phi that was found; proven where every one was tried."""
    facts = options.facts or BlockFacts.of(problem.num_blocks)
    if _count(problem) <= ENUMERATED:
        A_MN, status = _enumerated(problem, facts), Status.OPTIMAL
    else:
        A_MN, status = _searched(problem, facts), Status.FEASIBLE
    if options.objective != "gain":
        return Answer(Allocation(A_MN))
    return Answer(Allocation(A_MN), gain(A_MN, facts) if status is Status.OPTIMAL else math.inf, status)


# --- every matrix ---------------------------------------------------------------------------------------------------


def _count(problem: AllocationProblem) -> float:
    """Matrices up to exchanges of equal clients, before totals and popularities are asked for."""
    count: float = 1  # an int until it is infinite: floats end at 1e308
    for budget, clients in zip(*np.unique(problem.usable_N, return_counts=True), strict=True):
        columns = sum(math.comb(problem.num_blocks, k) for k in range(1, int(budget) + 1))
        count *= math.comb(columns + int(clients) - 1, int(clients)) if columns < 10**6 else math.inf
        if count > ENUMERATED:
            return math.inf
    return count


def _enumerated(problem: AllocationProblem, facts: BlockFacts) -> NDArray[np.bool_]:
    """The best of all feasible matrices; the first of equal ones."""
    M = problem.num_blocks
    budgets, clients = np.unique(problem.usable_N, return_counts=True)
    columns = [
        np.array([column for column in itertools.product((False, True), repeat=M) if 1 <= sum(column) <= budget])
        for budget in budgets
    ]
    squares = [np.einsum("km,kl->kml", part, part).astype(float) for part in columns]
    # For each class of equal clients the counts of every multiset of columns; then all combinations of classes.
    chosen = [
        np.array(list(itertools.combinations_with_replacement(range(len(part)), int(count))))
        for part, count in zip(columns, clients, strict=True)
    ]
    sums = [square[pick].sum(axis=1) for square, pick in zip(squares, chosen, strict=True)]
    best, best_index = -1.0, None
    inner, outer = sums[-1], [range(len(part)) for part in sums[:-1]]
    for index in itertools.product(*outer):
        start = sum((sums[level][i] for level, i in enumerate(index)), np.zeros((M, M)))
        for first in range(0, len(inner), max(1, _CHUNK // M**2)):
            shared_KMM = start + inner[first : first + max(1, _CHUNK // M**2)]
            value_K = np.where(allowed(problem, shared_KMM), gains(shared_KMM, facts), -1.0)
            at = int(value_K.argmax())
            if value_K[at] > best * BETTER or (best_index is None and value_K[at] >= 0):
                best, best_index = float(value_K[at]), (*index, first + at)
    A_MN = np.zeros((M, problem.num_clients), bool)
    for level, budget in enumerate(budgets):
        A_MN[:, problem.usable_N == budget] = columns[level][chosen[level][best_index[level]]].T
    return A_MN


# --- structured allocations and improvements --------------------------------------------------------------------------


def _searched(problem: AllocationProblem, facts: BlockFacts) -> NDArray[np.bool_]:
    starts = [A_MN for A_MN in _structured(problem, facts) if A_MN is not None]
    shared_KMM = np.stack([shared(A_MN) for A_MN in starts])
    value_K = np.where(allowed(problem, shared_KMM), gains(shared_KMM, facts), -1.0)
    order = np.argsort(-value_K, kind="stable")
    chosen = [int(order[0])]
    for k in order[1:]:
        if 0 <= value_K[k] * BETTER < value_K[chosen[-1]] and len(chosen) < _STARTS:
            chosen.append(int(k))
    room = float(_ROOM)
    best = None
    for left, k in zip(range(len(chosen), 0, -1), chosen, strict=True):
        search = Improvement(problem, facts, starts[k], room / (left + 1))
        room -= room / (left + 1) - search.run()
        best = search if best is None or search.value > best.value * BETTER else best
    # What is left goes into new attempts from the best one, shaken.
    rng = np.random.default_rng(0)
    while room > 0:
        changed = _shaken(problem, best.A_MN, rng)
        room -= CALL
        if changed is not None:
            search = Improvement(problem, facts, changed, room)
            room = search.run()
            best = search if search.value > best.value * BETTER else best
    return best.A_MN


def _shaken(problem: AllocationProblem, A_MN: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.bool_] | None:
    """One block for all clients with room, or from all that have another; or a few clients with random blocks. None
    where that is not allowed."""
    changed, usable_N = A_MN.copy(), problem.usable_N
    kind = rng.integers(4)
    if kind == 0:
        changed[rng.integers(len(A_MN))] |= A_MN.sum(axis=0) < usable_N
    elif kind == 1:
        changed[rng.integers(len(A_MN))] &= A_MN.sum(axis=0) == 1
    else:
        for n in rng.choice(A_MN.shape[1], size=min(A_MN.shape[1], int(rng.integers(2, 4))), replace=False):
            size = A_MN[:, n].sum() if kind == 2 else rng.integers(1, usable_N[n] + 1)
            changed[:, n] = rng.permutation(np.arange(len(A_MN)) < size)
    return changed if allowed(problem, shared(changed)[None])[0] else None


def _structured(problem: AllocationProblem, facts: BlockFacts) -> Iterator[NDArray[np.bool_] | None]:
    M = problem.num_blocks
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = [facts.energy_M, facts.energy_M / np.maximum(facts.size_M * facts.noise_M, 1e-300)]
    orders = {tuple(np.argsort(-values, kind="stable").tolist()) for values in worth}
    levels = sorted({round(level) for level in np.geomspace(1, M, 12)})
    # Shares by which a block's popularity may exceed another's: alike, by own noise, by energy.
    shares = [np.ones(M), np.sqrt(facts.size_M * facts.noise_M), facts.energy_M, np.sqrt(facts.energy_M)]
    for order in sorted(orders):
        for j in levels if problem.may_idle else [M]:
            blocks = np.array(order[:j])
            for k in [level for level in levels if level <= j]:
                for share_M in shares:
                    if share_M[blocks].min() > 0:
                        yield _dealt(problem, blocks, share_M[blocks], k)
    if not problem.may_idle:  # most clients on few blocks, the others carry what is left
        for j in [level for level in levels if level < M]:
            yield _hub(problem, np.array(next(iter(sorted(orders)))), j)


def _dealt(
    problem: AllocationProblem, blocks: NDArray[np.int64], share_J: NDArray[np.float64], most: int
) -> NDArray[np.bool_] | None:
    """Each client takes the blocks that lack most of their share; None where the request cannot be met so."""
    held_N = np.minimum(problem.usable_N, min(most, len(blocks)))
    total = problem.most_blocks
    if problem.total_mode == "eq" and held_N.sum() < total:
        held_N = np.minimum(problem.usable_N, len(blocks))
        if held_N.sum() < total:
            return None
    if held_N.sum() > total:
        held_N = _levelled(held_N, total)
    A_MN = np.zeros((problem.num_blocks, problem.num_clients), bool)
    if share_J.max() == share_J.min():  # in turn: consecutive runs around the blocks
        start_N = np.cumsum(held_N) - held_N
        client = np.repeat(np.arange(len(held_N)), held_N)
        step = np.arange(int(held_N.sum())) - start_N[client]
        A_MN[blocks[(start_N[client] + step) % len(blocks)], client] = True
        return A_MN
    if len(held_N) > _MANY:
        return None
    lack_J = share_J / share_J.sum() * held_N.sum()
    floor = float(problem.min_popularity)
    lack_J = np.maximum(lack_J, floor)
    for n, k in enumerate(held_N):
        chosen = np.argsort(-lack_J, kind="stable")[:k]
        A_MN[blocks[chosen], n] = True
        lack_J[chosen] -= 1.0
    return A_MN


def _hub(problem: AllocationProblem, order: NDArray[np.int64], j: int) -> NDArray[np.bool_] | None:
    """The first j blocks for most clients; each other block for as few clients as are asked for, whose budgets are the
    largest and who train nothing else."""
    M, N, floor = problem.num_blocks, problem.num_clients, problem.min_popularity
    A_MN = np.zeros((M, N), bool)
    by_budget = np.argsort(-problem.usable_N, kind="stable")
    waiting, at = np.repeat(order[j:], floor), 0
    # Copies of one block must go to different clients: dealt copy by copy.
    waiting = waiting.reshape(-1, floor).T.reshape(-1)
    used = 0
    for n in by_budget:
        if at == len(waiting):
            break
        take = waiting[at : at + int(min(problem.usable_N[n], M - j))]
        A_MN[take, n] = True
        at, used = at + len(take), used + 1
    rest = by_budget[used:]
    if at < len(waiting) or len(rest) < floor:
        return None
    room = problem.most_blocks - len(waiting)
    held = np.minimum(problem.usable_N[rest], j)
    if held.sum() > room:
        if room < len(rest):
            return None
        held = _levelled(held, room)
    lack = np.zeros(j)
    for n, k in zip(rest, held, strict=True):
        chosen = np.argsort(lack, kind="stable")[:k]
        A_MN[order[chosen], n] = True
        lack[chosen] += 1
    return A_MN


def _levelled(held_N: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """At most ``total`` blocks: the largest holdings are cut first, down to one block each."""
    low, high = 1, int(held_N.max())
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(held_N, middle).sum() <= total else (low, middle - 1)
    cut_N = np.minimum(held_N, low)
    more = np.flatnonzero(held_N > low)[: max(0, total - int(cut_N.sum()))]
    cut_N[more] += 1
    return cut_N


GAIN = Solver(
    "gain",
    "Gain",
    "the largest expected decrease of the loss a round for given energies and noises of the blocks (alike where none "
    "are given)",
    solve_gain,
    cost="milliseconds to seconds; about 0.1 s at N=50, M=24",
    objectives=("gain", "lambda", "v"),
    proves=True,
    most_points=12,
    may_idle=True,
)
