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

ENUMERATED = 300_000  # matrices, up to exchanges of equal clients, that are all tried
_ROOM, _CALL = 4_500_000, 4_500  # effort: changes of one cell looked at, and what looking at any costs beside: 0.1 s
_STARTS = 4  # structured allocations that are improved
_MANY = 200  # clients from which on blocks are only dealt out in turn
_CHUNK = 1 << 19
_BETTER = 1 + 1e-12


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


def _shared(A_MN: NDArray[np.bool_]) -> NDArray[np.float64]:
    columns = A_MN.astype(np.float32)
    return (columns @ columns.T).astype(float)


# --- every matrix ---------------------------------------------------------------------------------------------------


def _count(problem: AllocationProblem) -> float:
    """Matrices up to exchanges of equal clients, before totals and popularities are asked for."""
    count = 1.0
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
            value_K = np.where(_allowed(problem, shared_KMM), gains(shared_KMM, facts), -1.0)
            at = int(value_K.argmax())
            if value_K[at] > best * _BETTER or (best_index is None and value_K[at] >= 0):
                best, best_index = float(value_K[at]), (*index, first + at)
    A_MN = np.zeros((M, problem.num_clients), bool)
    for level, budget in enumerate(budgets):
        A_MN[:, problem.usable_N == budget] = columns[level][chosen[level][best_index[level]]].T
    return A_MN


def _allowed(problem: AllocationProblem, shared_KMM: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which candidates meet the total and the popularities that are asked for."""
    popularity_KM = np.einsum("kmm->km", shared_KMM)
    total_K = popularity_KM.sum(axis=1)
    enough_KM = popularity_KM >= problem.min_popularity
    if problem.may_idle:
        enough_KM |= popularity_KM == 0
    within_K = total_K <= problem.most_blocks
    if problem.total_mode == "eq":
        within_K &= total_K == problem.most_blocks
    return within_K & enough_KM.all(axis=1)


# --- structured allocations and improvements --------------------------------------------------------------------------


def _searched(problem: AllocationProblem, facts: BlockFacts) -> NDArray[np.bool_]:
    starts = [A_MN for A_MN in _structured(problem, facts) if A_MN is not None]
    shared_KMM = np.stack([_shared(A_MN) for A_MN in starts])
    value_K = np.where(_allowed(problem, shared_KMM), gains(shared_KMM, facts), -1.0)
    order = np.argsort(-value_K, kind="stable")
    chosen = [int(order[0])]
    for k in order[1:]:
        if 0 <= value_K[k] * _BETTER < value_K[chosen[-1]] and len(chosen) < _STARTS:
            chosen.append(int(k))
    room = float(_ROOM)
    best = None
    for left, k in zip(range(len(chosen), 0, -1), chosen, strict=True):
        search = _Improvement(problem, facts, starts[k], room / (left + 1))
        room -= room / (left + 1) - search.run()
        best = search if best is None or search.value > best.value * _BETTER else best
    # What is left goes into new attempts from the best one, shaken.
    rng = np.random.default_rng(0)
    while room > 0:
        changed = _shaken(problem, best.A_MN, rng)
        room -= _CALL
        if changed is not None:
            search = _Improvement(problem, facts, changed, room)
            room = search.run()
            best = search if search.value > best.value * _BETTER else best
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
    return changed if _allowed(problem, _shared(changed)[None])[0] else None


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


class _Improvement:
    """Better by one cell, by giving up a cell of one client for a cell of any, or by one block for all clients: the
    best such change again and again, until none helps or the ``room`` for computing is used up.

    With w_m = d_m / c_m^2 the cost is sum_m w_m R_m, R_m = sum_m' c_mm'^2 G_m' + c_mm' s_m'^2. One cell changes one row
    and column of c_mm' by a client's column, so all changes of one cell are a product of matrices. Clients of equal
    columns and budgets are alike: O kinds of them.
    """

    def __init__(self, problem: AllocationProblem, facts: BlockFacts, A_MN: NDArray[np.bool_], room: float) -> None:
        self._problem, self._facts, self.room = problem, facts, room
        self.A_MN = A_MN.copy()
        self._moved()

    def run(self) -> float:
        """Improve as far as it goes; what is left of the room."""
        while self.room > 0 and (self._better_by_one() or self._better_by_two() or self._better_by_row()):
            pass
        return self.room

    def _moved(self) -> None:
        """The state anew, so that no rounding is carried from change to change."""
        problem = self._problem
        self._shared_MM = _shared(self.A_MN)
        self.value = float(gains(self._shared_MM[None], self._facts)[0])
        kinds = np.concatenate([self.A_MN.T, problem.usable_N[:, None]], axis=1)
        _, first_O, count_O = np.unique(kinds, axis=0, return_index=True, return_counts=True)
        order = np.argsort(first_O)
        self._client_O, self._count_O = first_O[order], count_O[order]
        self._Y_OM = self.A_MN[:, self._client_O].T.astype(float)
        self._usable_O = problem.usable_N[self._client_O]

    def _flipped(self, shared_MM: NDArray[np.float64], Y_OM: NDArray[np.float64], sign: int) -> NDArray[np.float64]:
        """Phi after each column has one cell more (sign 1, where it has none) or fewer (-1, where it has one)."""
        G_M, s_M, d_M = self._facts.energy_M, self._facts.noise_M, self._facts.size_M
        c_M = np.diagonal(shared_MM)
        R_M = np.square(shared_MM) @ G_M + shared_MM @ s_M
        w_M, new_w_M = _over(d_M, np.square(c_M)), _over(d_M, np.square(c_M + sign))
        # The flipped block's own row: c_mm' changes by the column, which has the block itself only when it gives it up.
        row_OM = R_M + 2 * sign * ((Y_OM * G_M) @ shared_MM) + (Y_OM @ (G_M + sign * s_M))[:, None]
        # The rows of the column's blocks change in one place.
        other_OM = 2 * sign * ((Y_OM * w_M) @ shared_MM) * G_M + np.outer(Y_OM @ w_M, G_M + sign * s_M)
        if sign > 0:
            row_OM = row_OM + (2 * c_M + 1) * G_M + s_M
            energy_M = G_M @ (c_M > 0) + G_M * (c_M == 0)
        else:
            other_OM = other_OM - w_M * ((1 - 2 * c_M) * G_M - s_M)
            energy_M = G_M @ (c_M > 0) - G_M * (c_M == 1)
        self.room -= Y_OM.size + _CALL
        cost_OM = w_M @ R_M - w_M * R_M + new_w_M * row_OM + other_OM
        return _over(np.broadcast_to(np.square(energy_M), cost_OM.shape), cost_OM)

    def _may_drop(self) -> NDArray[np.bool_]:
        c_M = np.diagonal(self._shared_MM)
        may_M = c_M - 1 >= self._problem.min_popularity
        return may_M | (c_M == 1) if self._problem.may_idle else may_M

    def _best(self, value_OM: NDArray[np.float64], open_OM: NDArray[np.bool_]) -> tuple[float, int, int]:
        value_OM = np.where(open_OM, value_OM, -1.0)
        at = int(value_OM.argmax())
        return (float(value_OM.flat[at]), *divmod(at, value_OM.shape[1]))

    def _better_by_one(self) -> bool:
        problem, Y_OM = self._problem, self._Y_OM
        if problem.total_mode == "eq":
            return False
        held_O = Y_OM.sum(axis=1)
        may_drop_OM = (Y_OM > 0) & (held_O > 1)[:, None] & self._may_drop()
        value, kind, block = self._best(self._flipped(self._shared_MM, Y_OM, -1), may_drop_OM)
        cell = False
        if self.A_MN.sum() < problem.most_blocks:
            enough_M = np.diagonal(self._shared_MM) + 1 >= problem.min_popularity
            may_add_OM = (Y_OM == 0) & (held_O < self._usable_O)[:, None] & enough_M
            added = self._best(self._flipped(self._shared_MM, Y_OM, 1), may_add_OM)
            if added[0] > value:
                (value, kind, block), cell = added, True
        if value <= self.value * _BETTER:
            return False
        self.A_MN[block, self._client_O[kind]] = cell
        self._moved()
        return True

    def _better_by_two(self) -> bool:
        """For each kind of client and each of its blocks: without that cell, the best cell anywhere."""
        may_drop_M = self._may_drop()
        for kind, client in enumerate(self._client_O):
            for block in np.flatnonzero(self._Y_OM[kind]):
                if self.room <= 0:
                    return False
                column_M = self._Y_OM[kind].copy()
                shared_MM = self._shared_MM - np.outer(column_M, column_M)
                column_M[block] = 0
                shared_MM += np.outer(column_M, column_M)
                # The client itself stands last; its kind stands for the others that are like it.
                Y_OM = np.vstack([self._Y_OM, column_M])
                room_O = np.append(self._usable_O, self._usable_O[kind]) > Y_OM.sum(axis=1)
                enough_M = np.diagonal(shared_MM) + 1 >= self._problem.min_popularity
                open_OM = (Y_OM == 0) & room_O[:, None] & enough_M
                open_OM[kind] &= self._count_O[kind] > 1
                if not may_drop_M[block]:  # another client must have it instead
                    open_OM &= np.arange(len(may_drop_M)) == block
                if not column_M.any():  # every client keeps a block
                    open_OM[:-1] = False
                value, other, added = self._best(self._flipped(shared_MM, Y_OM, 1), open_OM)
                if value > self.value * _BETTER:
                    self.A_MN[block, client] = False
                    self.A_MN[added, self._client(other, int(client))] = True
                    self._moved()
                    return True
        return False

    def _better_by_row(self) -> bool:
        """One block to every client with room for it, or away from every client that has another: a block that costs
        little may pay only when all of its clients' neighbours have it too."""
        A_MN, held_N = self.A_MN, self.A_MN.sum(axis=0)
        changed = []
        for m in range(len(A_MN)):
            fuller, barer = A_MN.copy(), A_MN.copy()
            fuller[m] |= held_N < self._problem.usable_N
            barer[m] &= held_N == 1
            changed += [fuller, barer]
        shared_KMM = np.stack([_shared(candidate) for candidate in changed])
        value_K = np.where(_allowed(self._problem, shared_KMM), gains(shared_KMM, self._facts), -1.0)
        self.room -= len(changed) * _CALL
        best = int(value_K.argmax())
        if value_K[best] <= self.value * _BETTER:
            return False
        self.A_MN = changed[best]
        self._moved()
        return True

    def _client(self, kind: int, but: int) -> int:
        """A client of the kind other than ``but``; the kind after the last one is ``but`` itself."""
        if kind == len(self._client_O):
            return but
        first = self._client_O[kind]
        alike_N = (self.A_MN[:, [first]] == self.A_MN).all(axis=0)
        alike_N &= self._problem.usable_N == self._problem.usable_N[first]
        alike_N[but] = False
        return int(alike_N.argmax())


def _over(upper: NDArray[np.float64], lower: NDArray[np.float64]) -> NDArray[np.float64]:
    """upper / lower, 0 where lower is 0."""
    return np.divide(upper, lower, out=np.zeros(np.broadcast_shapes(upper.shape, lower.shape)), where=lower > 0)


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
