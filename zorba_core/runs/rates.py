"""What a calibration measured on one machine, kept in a file, and what it says of one block of a model.

General rates are of OPT's blocks of several widths; a block of another size lies between them. Where the model's own
block was measured too, at its own length of rows and along its own kind of directions, that is what counts: it knows
what the family's activation costs, and rows of a length that the machine's products do not like.

Shapes: M blocks of D parameters, R rows, L positions.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from zorba_core.checksums import read_sealed
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.files import fingerprint
from zorba_core.planning.engine_memory import Load
from zorba_core.planning.shapes import ModelShape

MAX_CALIBRATION_BYTES = 1_000_000
_VERSION = 1
# What a block's backward pass with every client's gradients takes, in forward passes, by what goes backward; for files
# without it.
_BACKWARD = {"exact": 2.0, "first-order": 2.0, "jvp": 4.0}


def way_back(load: Load) -> str | None:
    """Which entry of a calibration's ``backward`` the load's derivatives are; None where it has only forward passes."""
    if load.first_order:
        return "first-order"
    return load.estimator if load.estimator in _BACKWARD else None


Points = tuple[tuple[float, float], ...]  # (rows at once, seconds), by rising rows; 0 rows: the call itself


@dataclass(frozen=True)
class BlockSeconds:
    """Seconds of what a round does with one block of a model."""

    passed: Points  # a forward pass
    ended: Points  # the last block, of which only what the loss reads is computed, and the loss; both ways where one is
    moved: float  # its weights, along a direction and back
    updated: float  # a direction of the round's update drawn and added up
    differentiated: float  # of one client: the gradients of its rows and of its weights; of ``jvp``: a dual pass
    multiplied: float  # a direction drawn and multiplied with the gradients of a share of clients

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Self:
        """Of parsed JSON; raises as :func:`calibration_of`."""
        of_rows = []
        for name in ("passed", "ended"):
            points = tuple((float(rows), _positive(seconds, name)) for rows, seconds in content[name])
            rows = [rows for rows, _ in points]
            if len(rows) < 2 or rows != sorted(set(rows)) or rows[0] != 0:
                raise InvalidInputError(f"rows at once of {name} must rise from 0")
            of_rows.append(points)
        names = ("moved", "updated", "differentiated", "multiplied")
        return cls(*of_rows, *(_positive(content[name], name) for name in names))


def seconds_of_rows(points: Points, rows: int, at_once: int) -> float:
    """Of so many rows, in as few pieces as may go at once: between the points, and beyond them as at the end."""
    if rows < 1:
        return 0.0
    pieces = -(-rows // max(1, at_once))
    each = rows / pieces
    place = min(max(1, bisect.bisect_left(points, (each,))), len(points) - 1)
    (before, least), (after, most) = points[place - 1], points[place]
    return pieces * (least + (most - least) * (each - before) / (after - before))


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
    backward: Mapping[str, float] = field(default_factory=lambda: dict(_BACKWARD))  # in forward passes: way_back
    models: Mapping[str, BlockSeconds] = field(default_factory=dict)  # own blocks, by model_key

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

    def block(self, shape: ModelShape, load: Load, direction: str) -> BlockSeconds:
        """Of the model's own block if it was measured, else by the general rates."""
        return self.models.get(model_key(shape, load, direction)) or self.general(shape, load, direction)

    def general(self, shape: ModelShape, load: Load, direction: str) -> BlockSeconds:
        """By the general rates."""
        calls, speed = self.block_rate(shape.block_parameters)
        # causal: half the positions on average, twice
        a_row = load.seq_len * (shape.block_parameters + load.seq_len * shape.query) / speed
        drawn = shape.trained_parameters / self.noise_rate(direction)
        put_aside = 2 * shape.trained_parameters * load.number_bytes / self.copy_bytes_per_second
        # Of the last block nothing but keys and values is computed at every position.
        last = a_row * 2 * shape.hidden * shape.key_value / shape.block_parameters
        more = self.backward.get(way_back(load) or "", 0.0)
        passed, ended = ((0.0, calls), (1.0, calls + a_row)), ((0.0, calls), (1.0, calls + (1 + more) * last))
        back = more * load.client_rows * a_row
        return BlockSeconds(passed, ended, drawn + put_aside, drawn, back, drawn)

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

    blocks = tuple(
        BlockRate(
            int(_positive(rate["block_parameters"], "block_parameters")),
            _positive(rate["call_seconds"], "call_seconds"),
            _positive(rate["multiply_adds_per_second"], "multiply_adds_per_second"),
        )
        for rate in content["blocks"]
    )
    sizes = [rate.block_parameters for rate in blocks]
    if not blocks or sizes != sorted(set(sizes)):
        raise InvalidInputError("its block sizes must rise")
    noise = {str(kind): _positive(rate, "noise") for kind, rate in content["noise_numbers_per_second"].items()}
    if not noise:
        raise InvalidInputError("it has no speed of noise")
    rates = ("copy_bytes_per_second", "read_bytes_per_second", "write_bytes_per_second")
    return Calibration(
        blocks,
        noise,
        *(_positive(content[name], name) for name in rates),
        process_bytes=int(_positive(content["process_bytes"], "process_bytes")),
        machine=dict(content["machine"]),
        backward={way: _positive(content.get("backward", _BACKWARD)[way], "backward") for way in _BACKWARD},
        models={str(key): BlockSeconds.read(block) for key, block in content.get("models", {}).items()},
    )


def _positive(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e18:
        raise InvalidInputError(f"{name} is {value!r}; it must be a finite number above 0")
    return float(value)


def model_key(shape: ModelShape, load: Load, direction: str) -> str:
    """Equal for two models and loads whose blocks take the same time."""
    sizes = {**asdict(shape), "name": "", "num_blocks": 0, "rest_parameters": 0}
    of_load = (load.seq_len, load.client_rows, load.dtype, way_back(load), load.rank, load.max_rows)
    return fingerprint([sizes, of_load, direction])[:16]
