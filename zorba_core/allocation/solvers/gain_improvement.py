"""An allocation's gain Phi made larger by changing one or two clients, or one block, at a time.

Shapes: M blocks, N clients, O kinds of clients that are alike, K candidates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation.gain import BlockFacts, gains
from zorba_core.allocation.problem import AllocationProblem

CALL = 4_500  # effort of looking at any changes at all, beside one for each
BETTER = 1 + 1e-12


def shared(A_MN: NDArray[np.bool_]) -> NDArray[np.float64]:
    """c_mm', (M, M): how many clients activate both blocks."""
    columns = A_MN.astype(np.float32)
    return (columns @ columns.T).astype(float)


def allowed(problem: AllocationProblem, shared_KMM: NDArray[np.float64]) -> NDArray[np.bool_]:
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


class Improvement:
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
        self._shared_MM = shared(self.A_MN)
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
        self.room -= Y_OM.size + CALL
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
        if value <= self.value * BETTER:
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
                if value > self.value * BETTER:
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
        shared_KMM = np.stack([shared(candidate) for candidate in changed])
        value_K = np.where(allowed(self._problem, shared_KMM), gains(shared_KMM, self._facts), -1.0)
        self.room -= len(changed) * CALL
        best = int(value_K.argmax())
        if value_K[best] <= self.value * BETTER:
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
