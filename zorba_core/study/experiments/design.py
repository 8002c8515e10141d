"""Matrices for the question "what predicts?": one total, and measures that tell nothing of each other.

Thousands of feasible matrices of one total are drawn by several rules; of them ``count`` are chosen so that the
correlation matrix of their measures has the largest determinant (D-optimal), by exchanging one matrix at a time. So
which measure predicts is not decided by which measures happen to go together.

The gain Phi is not among them. With blocks alike it is a function of two that are, -log Phi = log(D + E s^2/G) - log M.
With blocks of unequal energy it depends on which block is which: every run permutes the blocks anew, so what Phi
differs by between the runs of one matrix tells nothing of the other measures, whatever the matrices are.

    python -m zorba_core.study.experiments.design      # draws, chooses and stores them: some minutes of one core

Shapes: M blocks, N clients, K matrices, F measures, P of the pool.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zorba_core.checksums import read_sealed, write_sealed
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.study.experiments.measures import allocation_measures
from zorba_core.study.experiments.recipes import Recipe

FILE = Path(__file__).resolve().parents[3] / "artifacts" / "experiments" / "predictors" / "matrices.json"
FEATURES = ("log_lambda", "V", "E", "D")
NUM_CLIENTS, NUM_BLOCKS, TOTAL, COUNT = 20, 12, 80, 24
_POOL, _RESTARTS, _SEED = 20_000, 12, 0
_TRIED = 400  # that could take the place of one
_MAX_BYTES = 1_000_000


class Design(NamedTuple):
    """The chosen matrices and what makes them a design."""

    columns_K: tuple[str, ...]  # as a recipe's: a hexadecimal number for each client
    features_KF: NDArray[np.float64]

    @property
    def correlation_FF(self) -> NDArray[np.float64]:
        return np.corrcoef(self.features_KF.T)

    @property
    def largest_correlation(self) -> float:
        return float(np.abs(self.correlation_FF - np.eye(len(FEATURES))).max())

    @property
    def largest_leverage(self) -> float:
        """Of any matrix in the straight line through any one measure."""
        centred_KF = self.features_KF - self.features_KF.mean(axis=0)
        return float((1 / len(centred_KF) + centred_KF**2 / (centred_KF**2).sum(axis=0)).max())


def features(recipe: Recipe) -> NDArray[np.float64]:
    """The measures of a recipe's matrix, (F,), in the order of :data:`FEATURES`."""
    measures = allocation_measures(recipe.build())
    return np.array([np.log(measures["lambda"]), measures["V"], measures["E"], measures["D"]])


def encoded(A_MN: NDArray[np.bool_]) -> str:
    """``columns`` of the recipe that builds this matrix."""
    return ",".join(f"{sum(1 << int(m) for m in np.flatnonzero(column)):x}" for column in A_MN.T)


def recipe_of(columns: str, shuffle: int | None = None) -> Recipe:
    return Recipe("given", len(columns.split(",")), columns=columns, shuffle=shuffle)


def stored_design(path: Path = FILE) -> Design:
    """
    Raises:
        MissingDataError: not there; names the command that makes it.
        InvalidInputError: damaged, or not what the recipes' matrices measure.
    """
    if not path.is_file():
        raise MissingDataError(f"{path} does not exist; make it with: python -m {__spec__.name}")
    if path.stat().st_size > _MAX_BYTES:
        raise InvalidInputError(f"{path}: larger than {_MAX_BYTES} bytes, which no design is")
    try:
        content = read_sealed(path)
        columns_K = tuple(str(row["columns"]) for row in content["matrices"])
        features_KF = np.array([[float(row[name]) for name in FEATURES] for row in content["matrices"]])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"{path}: not a design ({error}); make it again: python -m {__spec__.name}") from None
    return Design(columns_K, features_KF)


def drawn(rng: np.random.Generator) -> NDArray[np.bool_]:
    """A feasible matrix of ``TOTAL`` blocks. Popularities and clients' loads are uneven by a random strength; scarce
    blocks go to the same clients or to different ones; blocks and clients may fall into groups that keep together."""
    M, N = NUM_BLOCKS, NUM_CLIENTS
    popularity_M = _popularity(rng)
    scarcity_M = -np.log(popularity_M)
    scarcity_M = (scarcity_M - scarcity_M.mean()) / (scarcity_M.std() + 1e-9)
    place_N = rng.permutation(np.linspace(-1, 1, N))
    score_MN = rng.normal(0, 5) * np.outer(scarcity_M, place_N) + rng.uniform(0, 3) * place_N
    group_M, group_N = rng.integers(0, 3, M), rng.integers(0, 3, N)
    score_MN = score_MN + rng.normal(0, 2) * (group_M[:, None] == group_N)
    score_MN = score_MN + np.exp(rng.uniform(-4, 1)) * rng.gumbel(size=(M, N))
    A_MN = np.zeros((M, N), bool)
    for m in range(M):
        A_MN[m, np.argsort(-score_MN[m])[: popularity_M[m]]] = True
    for n in np.flatnonzero(~A_MN.any(axis=0)):  # takes a cell from the client that has most, in a block it has
        richest = int(A_MN.sum(axis=0).argmax())
        m = rng.choice(np.flatnonzero(A_MN[:, richest]))
        A_MN[m, richest], A_MN[m, n] = False, True
    return A_MN


def _popularity(rng: np.random.Generator) -> NDArray[np.int64]:
    """Clients of each block, from 1 to N, ``TOTAL`` in all."""
    share_M = rng.dirichlet(np.full(NUM_BLOCKS, np.exp(rng.uniform(-1.5, 4))))
    popularity_M = np.clip(np.round(share_M * TOTAL), 1, NUM_CLIENTS).astype(np.int64)
    while (missing := TOTAL - popularity_M.sum()) != 0:
        room_M = popularity_M < NUM_CLIENTS if missing > 0 else popularity_M > 1
        popularity_M[rng.choice(np.flatnonzero(room_M))] += np.sign(missing)
    return popularity_M


def _pool(rng: np.random.Generator, size: int) -> Iterator[tuple[str, NDArray[np.float64]]]:
    for _ in range(size):
        columns = encoded(drawn(rng))
        yield columns, features(recipe_of(columns))


def choose(pool_PF: NDArray[np.float64], count: int, rng: np.random.Generator, restarts: int) -> NDArray[np.int64]:
    """Indices of ``count`` rows whose correlation matrix has the largest determinant found, none of them an outlier."""
    spread = np.abs(pool_PF - np.median(pool_PF, axis=0)) / pool_PF.std(axis=0)
    usable = np.flatnonzero((spread < 2.2).all(axis=1))
    best, best_value = usable[:count], -np.inf
    for _ in range(restarts):
        chosen = rng.choice(usable, count, replace=False)
        value, improved = _value(pool_PF[chosen]), True
        while improved:
            improved = False
            for place in range(count):
                others = np.setdiff1d(usable, chosen)
                candidates = rng.choice(others, min(_TRIED, len(others)), replace=False)
                trial_CKF = np.repeat(pool_PF[chosen][None], len(candidates), axis=0)
                trial_CKF[:, place] = pool_PF[candidates]
                value_C = _value(trial_CKF)
                if value_C.max() > value + 1e-9:
                    value, improved = float(value_C.max()), True
                    chosen[place] = candidates[int(value_C.argmax())]
        if value > best_value:
            best, best_value = chosen.copy(), value
    return np.sort(best)


def _value(chosen_KF: NDArray[np.float64]) -> NDArray[np.float64]:
    """log det of the correlation matrix, 0 at best, less what leverages above 0.19 exceed it by."""
    centred = chosen_KF - chosen_KF.mean(axis=-2, keepdims=True)
    square = np.square(centred).sum(axis=-2, keepdims=True)
    unit = centred / np.sqrt(square)
    gram = np.swapaxes(unit, -1, -2) @ unit
    leverage = 1 / chosen_KF.shape[-2] + np.square(unit).max(axis=(-1, -2))
    return np.linalg.slogdet(gram)[1] - 20 * np.maximum(0, leverage - 0.19)


def main() -> None:
    rng = np.random.default_rng(_SEED)
    columns, pool = zip(*_pool(rng, _POOL), strict=True)
    pool_PF = np.array(pool)
    index_K = choose(pool_PF, COUNT, rng, _RESTARTS)
    rows = [
        {"columns": columns[k], **dict(zip(FEATURES, map(float, pool_PF[k]), strict=True))} for k in index_K.tolist()
    ]
    design = Design(tuple(row["columns"] for row in rows), pool_PF[index_K])
    write_sealed(
        FILE,
        {
            "pool": _POOL,
            "seed": _SEED,
            "largest_correlation": design.largest_correlation,
            "largest_leverage": design.largest_leverage,
            "matrices": rows,
        },
    )
    print(f"largest |r| {design.largest_correlation:.3f}, largest leverage {design.largest_leverage:.3f}: {FILE}")


if __name__ == "__main__":
    main()
