"""Seconds of a round on a client, from rates that a calibration measured on one machine.

A round of one client: the base pass through all M blocks; for each of Q directions the blocks from its first active
one on, and for each active block noise to draw and add, and weights to put aside and back; then the update, Q
directions of noise for all M blocks, which every replica applies. Streaming also reads and writes every block that does
not stay in memory, once a round, while it computes.

Shapes: M blocks of D parameters, B rows, L positions, Q directions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zorba_core.checksums import read_sealed
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.planning.engine_memory import Load
from zorba_core.planning.shapes import ModelShape

MAX_CALIBRATION_BYTES = 1_000_000
_VERSION = 1


@dataclass(frozen=True)
class BlockRate:
    """How fast blocks of one size run: ``calls`` seconds for every piece, and multiply-adds a second within it."""

    block_parameters: int
    call_seconds: float
    multiply_adds_per_second: float


@dataclass(frozen=True)
class Calibration:
    """What was measured on one machine. Numbers a second are of float32."""

    blocks: tuple[BlockRate, ...]  # by rising size
    noise_numbers_per_second: Mapping[str, float]  # by kind of direction: drawn, scaled and added to weights
    copy_bytes_per_second: float
    read_bytes_per_second: float  # of a file that is not in memory
    write_bytes_per_second: float
    process_bytes: int  # resident set of a process with the libraries loaded and no model
    machine: Mapping[str, Any]

    def noise_rate(self, direction: str) -> float:
        """Of a kind that was not measured: the slowest measured one."""
        rates = self.noise_numbers_per_second
        return rates.get(direction, min(rates.values()))

    def block_rate(self, block_parameters: int) -> tuple[float, float]:
        """(seconds a call, multiply-adds a second) of a block of that size: between the measured sizes on logarithmic
        scales, beyond them as at the end. A call reads the block's weights, so a larger block's takes longer in
        proportion."""
        size = np.log([rate.block_parameters for rate in self.blocks])
        at = math.log(block_parameters)
        calls = np.interp(at, size, np.log([rate.call_seconds for rate in self.blocks]))
        speeds = np.interp(at, size, np.log([rate.multiply_adds_per_second for rate in self.blocks]))
        return math.exp(calls + max(0.0, at - size[-1])), math.exp(speeds)

    def describe(self) -> dict[str, Any]:
        return {"version": _VERSION, **asdict(self)}


def read_calibration(path: Path) -> Calibration:
    """A calibration that ``zorba plan --calibration FILE`` wrote.

    Raises:
        MissingDataError: no such file.
        InvalidInputError: not such a file, or a number in it that cannot be.
    """
    if not path.is_file():
        raise MissingDataError(f"calibration file {str(path)!r} does not exist")
    if path.stat().st_size > MAX_CALIBRATION_BYTES:
        raise InvalidInputError(f"{path}: too large for a calibration (limit {MAX_CALIBRATION_BYTES} bytes)")
    try:
        return calibration_of(read_sealed(path))
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: {error}; remove it, and it is measured anew") from None
    except (ValueError, TypeError, KeyError, RecursionError, AttributeError):
        raise InvalidInputError(
            f"{path}: not a calibration of zorba plan; remove it, and it is measured anew"
        ) from None


def calibration_of(content: Any) -> Calibration:
    """The calibration of parsed JSON.

    Raises:
        InvalidInputError: another version, or a number that cannot be.
        KeyError, TypeError, AttributeError, ValueError: it is no calibration at all.
    """
    if content["version"] != _VERSION:
        raise InvalidInputError(f"a calibration of version {content['version']!r}, and this program reads {_VERSION}")

    def positive(value: Any, name: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e18:
            raise InvalidInputError(f"{name} is {value!r}; it must be a finite number above 0")
        return float(value)

    blocks = tuple(
        BlockRate(
            int(positive(rate["block_parameters"], "block_parameters")),
            positive(rate["call_seconds"], "call_seconds"),
            positive(rate["multiply_adds_per_second"], "multiply_adds_per_second"),
        )
        for rate in content["blocks"]
    )
    sizes = [rate.block_parameters for rate in blocks]
    if not blocks or sizes != sorted(set(sizes)):
        raise InvalidInputError("its block sizes must rise")
    noise = {str(kind): positive(rate, "noise") for kind, rate in content["noise_numbers_per_second"].items()}
    if not noise:
        raise InvalidInputError("it has no speed of noise")
    rates = ("copy_bytes_per_second", "read_bytes_per_second", "write_bytes_per_second")
    return Calibration(
        blocks,
        noise,
        *(positive(content[name], name) for name in rates),
        process_bytes=int(positive(content["process_bytes"], "process_bytes")),
        machine=dict(content["machine"]),
    )


@dataclass(frozen=True)
class RoundSeconds:
    """Seconds of a client's round by what they are spent on. Reading goes on while the rest is computed."""

    passes: float
    noise: float
    copies: float
    update: float
    reading: float = 0.0

    @property
    def computing(self) -> float:
        return self.passes + self.noise + self.copies + self.update

    @property
    def total(self) -> float:
        return max(self.computing, self.reading)

    @property
    def slowest_part(self) -> str:
        """What most of the time goes to."""
        if self.reading > self.computing:
            return "reading weights"
        parts = {"forward passes": self.passes, "noise": self.noise + self.update, "copying weights": self.copies}
        return max(parts, key=parts.__getitem__)


def round_seconds(
    shape: ModelShape,
    load: Load,
    calibration: Calibration,
    *,
    direction: str,
    active_blocks: int,
    forward_work: float,
    updated_blocks: int | None = None,
    resident_blocks: int | None = None,
) -> RoundSeconds:
    """A round of one client; or, for ``num_clients`` above 1, of a process that simulates them all.

    Args:
        active_blocks: blocks to perturb for each direction: a client's own, or in a simulation all that anybody has.
        forward_work: blocks that a direction computes anew, summed over clients: M less the first active block of each.
        updated_blocks: that the round changes: those that anybody activates; default all M.
        resident_blocks: as for :func:`zorba_core.planning.engine_memory.footprint`.
    """
    M, Q, D = shape.num_blocks, load.num_perturbations, shape.block_parameters
    positions = load.client_rows * load.seq_len
    calls, speed = calibration.block_rate(D)
    one_pass = positions * (D + load.seq_len * shape.query) / speed  # causal: half the positions on average, twice
    # Of the last block nothing but keys and values is computed at every position.
    last = (2 * shape.hidden * shape.key_value) / D
    base = load.num_clients * (M - 1 + last)
    anew = forward_work - load.num_clients * (1 - last)
    pieces = -(-load.rows // load.rows_at_once(shape.hidden))
    called = calls * pieces * (M + Q * forward_work / load.num_clients)
    moves = shape.trained_parameters
    noise = Q * active_blocks * moves / calibration.noise_rate(direction)
    copied = Q * (2 * active_blocks * moves + load.rows * load.seq_len * shape.hidden) * load.number_bytes
    reading = 0.0
    if resident_blocks is not None:
        moved = max(0, M - resident_blocks) * D * load.number_bytes
        reading = moved / calibration.read_bytes_per_second + moved / calibration.write_bytes_per_second
    return RoundSeconds(
        passes=(base + Q * anew) * one_pass + called,
        noise=noise,
        copies=copied / calibration.copy_bytes_per_second,
        update=Q * (M if updated_blocks is None else updated_blocks) * moves / calibration.noise_rate(direction),
        reading=reading,
    )
