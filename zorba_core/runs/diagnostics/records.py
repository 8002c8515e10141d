"""``diagnostics.parquet`` of a run folder: what was measured of the clients' gradients. Reading needs no torch.

One row for each time, in the order of rounds; the columns are the fields of :class:`Measured`, ``norm_MN`` row after
row in one list. Gradients are those of each client's loss F_n by all blocks, whether or not the client activates them,
at weights that all clients share. With g_nm client n's gradient of block m on its mini-batch, <.,.> inner products,
a_mn the allocation, and c_m and c_mm' how many clients activate block m, and m and m' both:

    norm_MN           |g_nm|
    energy_M          G_m = mean over n != n' of <g_nm, g_n'm>: unbiased for the squared norm of the clients' mean
                      gradient, of all rows; may come out below 0 where noise is large
    noise_M           s_m^2 = mean_n |g_nm|^2 - G_m: variance of one client's gradient, of its mini-batch and its data
    bias_M            | sum_n a_mn/c_m g_nm - mean_n g_nm |^2: how far the block's average is from that of all clients.
                      Independent noise makes it s_m^2 (1/c_m - 1/N), which V sums
    coupled_noise_M   sum_m' ( | sum_n a_mn a_m'n/c_m g_nm' |^2 - (c_mm'/c_m)^2 G_m' ): noise of all blocks that enters
                      block m's averaged scalar. Independent noise makes it sum_m' c_mm'/c_m^2 s_m'^2, which E sums

:attr:`Measured.v` and :attr:`Measured.e` are V and E of :mod:`zorba_core.allocation.measures` as the gradients have
them.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from zorba_core.data.checked_tables import UNREADABLE, digest, read_table, write_table
from zorba_core.errors import InvalidInputError

DIAGNOSTICS = "diagnostics.parquet"
_OF_BLOCKS = ("popularity_M", "energy_M", "noise_M", "bias_M", "coupled_noise_M")
_SCHEMA = pa.schema(
    [
        ("round", pa.int64()),
        ("loss", pa.float64()),
        ("popularity_M", pa.list_(pa.int64())),
        *((name, pa.list_(pa.float64())) for name in _OF_BLOCKS[1:]),
        ("norm_MN", pa.list_(pa.float32())),
    ]
)
_MOST_BYTES, _MOST_NUMBERS = 1_000_000_000, 2**28


@dataclass(frozen=True, eq=False)
class Measured:
    """The clients' gradients after ``round`` rounds; 0 is before the first. See the top of the file."""

    round: int
    loss: float  # mean of F_n over all clients, on the same mini-batches
    popularity_M: np.ndarray  # int64, c_m of the allocation at that time
    energy_M: np.ndarray  # float64, G_m
    noise_M: np.ndarray  # float64, s_m^2; NaN with a single client
    bias_M: np.ndarray  # float64; 0 for a block that nobody activates
    coupled_noise_M: np.ndarray  # float64; likewise
    norm_MN: np.ndarray  # float32

    @property
    def v(self) -> float:
        """V as measured: sum_m bias_m / sum_m s_m^2 + 1/N. What V is if noise is independent and equal."""
        return float(self.bias_M.sum() / self.noise_M.sum() + 1 / self.norm_MN.shape[1])

    @property
    def e(self) -> float:
        """E as measured: sum_m of coupled noise / sum_m s_m^2. What E is if noise is independent and equal."""
        return float(self.coupled_noise_M.sum() / self.noise_M.sum())

    @classmethod
    def of_products(cls, round_index: int, loss_N: np.ndarray, product_MNN: np.ndarray, A_MN: np.ndarray) -> Measured:
        """From the inner products <g_nm, g_n'm> of all clients, float64."""
        M, N = A_MN.shape
        square_MN = np.einsum("mnn->mn", product_MNN)
        total_M, own_M = product_MNN.sum(axis=(1, 2)), square_MN.sum(axis=1)
        energy_M = (total_M - own_M) / (N * (N - 1)) if N > 1 else own_M
        noise_M = own_M / N - energy_M if N > 1 else np.full(M, np.nan)
        weight_MN = A_MN / np.maximum(A_MN.sum(axis=1), 1)[:, None]
        apart_MN = np.where(A_MN.any(axis=1)[:, None], weight_MN - 1 / N, 0.0)
        shared_MM = weight_MN @ A_MN.T.astype(float)  # c_mm' / c_m
        square_MM = np.stack(
            [
                np.einsum("mn,nk,mk->m", weight_MN * A_MN[other], product_MNN[other], weight_MN * A_MN[other])
                for other in range(M)
            ],
            axis=1,
        )
        return cls(
            round_index,
            float(np.mean(loss_N)),
            A_MN.sum(axis=1, dtype=np.int64),
            energy_M,
            noise_M,
            np.einsum("mn,mnk,mk->m", apart_MN, product_MNN, apart_MN),
            (square_MM - np.square(shared_MM) * energy_M).sum(axis=1),
            np.sqrt(square_MN).astype(np.float32),
        )


def write_measured(path: str | os.PathLike[str], measured: Iterable[Measured]) -> None:
    """Write all of a run's rows with a checksum, whole or not at all."""
    write_table(Path(path), _table(measured))


def described(measured: Sequence[Measured]) -> dict[str, Any]:
    """What a finished run's summary says of its rows: how many, and the checksum of the table that they make."""
    return {"times": len(measured), "sha256": digest(_table(measured))}


def _table(measured: Iterable[Measured]) -> pa.Table:
    rows = [
        {
            "round": row.round,
            "loss": row.loss,
            "norm_MN": row.norm_MN.ravel().tolist(),
            **{name: getattr(row, name).tolist() for name in _OF_BLOCKS},
        }
        for row in measured
    ]
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def measured_rounds(every: int, rounds_done: int) -> list[int]:
    """After which rounds a run measures that is asked to do so after every ``every``."""
    return list(range(0, rounds_done + 1, every))


def read_measured_of(
    folder: Path,
    config: Mapping[str, Any],
    summary: Mapping[str, Any],
    rounds_done: int,
    num_blocks: int,
    num_clients: int,
) -> tuple[Measured, ...]:
    """What a run measured: nothing where it was not asked to, or has not yet.

    Args:
        config, summary: of the run in ``folder``; its summary is empty while it is unfinished.
        rounds_done: in the run's metrics. The first measurement is made before the first round.

    Raises:
        InvalidInputError: as :func:`read_measured`; the file is missing although the run measured; or it is not the one
            that a finished run's summary names.
    """
    path, stated = folder / DIAGNOSTICS, summary.get("diagnostics")
    if not os.path.lexists(path):
        if stated is None and (config.get("diagnostics") is None or not (summary or rounds_done)):
            return ()
        raise InvalidInputError(
            f"{path} is missing, and this run measured its clients' gradients; restore it from a copy. Without it only "
            "these measurements are lost"
        )
    measured = read_measured(path, num_blocks, num_clients)
    # An interrupted run's summary is out of date as soon as the run is resumed.
    if stated is not None and summary.get("stopped_by") != "interrupt" and described(measured) != dict(stated):
        raise InvalidInputError(
            f"{path} is not the file that the run's summary names: it was damaged or changed; restore it from a copy"
        )
    return measured


def read_measured(path: str | os.PathLike[str], num_blocks: int, num_clients: int) -> tuple[Measured, ...]:
    """The rows of a file, checked; none where there is no file.

    Raises:
        InvalidInputError: it is damaged, too large, or of another run.
    """
    path = Path(path)
    if not os.path.lexists(path):
        return ()
    try:
        if not path.is_file():
            raise ValueError("it is something else than a file" if path.exists() else "it is a link to nothing")
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"{path.stat().st_size} bytes are too many")
        table = read_table(path, _MOST_NUMBERS // (num_blocks * num_clients))
        if table.schema.names != _SCHEMA.names:
            raise ValueError("its columns are others")
        rows = [_checked(row, num_blocks, num_clients) for row in table.cast(_SCHEMA).to_pylist()]
        if not _rises([row.round for row in rows]):
            raise ValueError("its rounds do not rise")
    except (InvalidInputError, *UNREADABLE) as error:
        reason = (str(error).splitlines() or [""])[0][:200]
        raise InvalidInputError(
            f"{path}: not what was measured of this run's gradients ({reason}); the file is damaged, remove it"
        ) from None
    return tuple(rows)


def _checked(row: Mapping[str, Any], num_blocks: int, num_clients: int) -> Measured:
    """
    Raises:
        ValueError, TypeError: a number is missing or impossible.
    """
    values = {name: np.array(row[name], np.int64 if name == "popularity_M" else np.float64) for name in _OF_BLOCKS}
    norm_X = np.array(row["norm_MN"], np.float32)
    if any(value.shape != (num_blocks,) for value in values.values()) or norm_X.shape != (num_blocks * num_clients,):
        raise ValueError(f"it is not about {num_blocks} blocks and {num_clients} clients")
    c_M = values["popularity_M"]
    if row["round"] < 0 or c_M.min() < 0 or c_M.max() > num_clients or (norm_X < 0).any():
        raise ValueError("a number is out of range")
    return Measured(row["round"], float(row["loss"]), norm_MN=norm_X.reshape(num_blocks, num_clients), **values)


def _rises(rounds: Sequence[int]) -> bool:
    return all(before < after for before, after in itertools.pairwise(rounds))
