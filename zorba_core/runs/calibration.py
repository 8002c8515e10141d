"""A few seconds of measuring what a round is made of, on this machine: for ``zorba plan``.

Blocks of several widths run on random rows, in pieces as large as a cohort's and in small ones: the two give the cost
of a call and of a multiplication. Beside them: what a backward pass costs beside a forward one, noise drawn and added
to weights, weights copied, a file read and written. On one CPU thread the clock is this process's own CPU time, which
other work on the machine changes little; reading and writing are timed by the wall, and a file is dropped from the
system's cache before it is read.

Shapes: B rows, L positions, H hidden size.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import OPTConfig, OPTForCausalLM

from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import rows_at_once
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.settings import TrainSettings
from zorba_core.planning.engine_memory import Load
from zorba_core.planning.shapes import ModelShape, shape_from_config
from zorba_core.runs.environment import describe
from zorba_core.runs.memory_meter import resident_bytes
from zorba_core.runs.own_block import Clock, is_small_enough, measure_block, measure_ways_back, seconds_of
from zorba_core.runs.rates import BlockRate, Calibration, model_key

WIDTHS = (64, 128, 256, 512, 1024)
_HEAD_SIZE, _LENGTH, _FEW_ROWS = 64, 32, 2
_WIDTH_BACK, _ROWS_BACK, _CLIENTS_BACK = 256, 8, 4
_NOISE_NUMBERS = 2**22
_FILE_BYTES = 2**26
_KINDS = ("gaussian", "rademacher")


@torch.no_grad()
def calibrate(*, threads: int = 1, folder: str | os.PathLike[str] | None = None) -> Calibration:
    """Measure this machine's CPU.

    Args:
        folder: where the file to read and write is made; default: the system's folder for temporary files. It should
            lie on the disk that streamed weights will lie on.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    clock = _clock(threads)
    try:
        blocks = tuple(_block_rate(width, clock) for width in WIDTHS)
        process = resident_bytes() or 1  # where it cannot be read: nothing is known, and nothing is added
        noise = {kind: _noise_rate(kind, clock) for kind in _KINDS}
        copied = _copy_rate(clock)
        read, written = _disk_rates(folder)
        settings = TrainSettings(threads=threads)
        config = _config(_WIDTH_BACK).to_dict()
        shape, load = shape_from_config(config, "calibration"), Load(_ROWS_BACK, _LENGTH, 1, num_clients=_CLIENTS_BACK)
        backward = measure_ways_back(config, shape, load, settings, clock)
        machine = {
            **describe(settings),
            "clock": "process CPU seconds" if threads == 1 else "wall seconds",
            "threads": threads,
            "load_average": os.getloadavg()[0],
        }
    finally:
        torch.set_num_threads(before)
    return Calibration(blocks, noise, copied, read, written, process, machine, backward)


def with_own_block(
    calibration: Calibration,
    config: Mapping[str, Any],
    shape: ModelShape,
    load: Load,
    settings: TrainSettings,
    direction: str,
) -> Calibration:
    """The calibration and, where the model is small enough for it, what its own block takes at this load. A model of
    a kind that cannot be made of its config alone is left to the general rates."""
    key = model_key(shape, load, direction)
    if key in calibration.models or not is_small_enough(shape, load):
        return calibration
    before = torch.get_num_threads()
    torch.set_num_threads(settings.threads)
    try:
        block = measure_block(config, shape, load, settings, _clock(settings.threads))
    except (ValueError, TypeError, KeyError, AttributeError, AssertionError, RuntimeError):
        return calibration
    finally:
        torch.set_num_threads(before)
    return replace(calibration, models={**calibration.models, key: block})


def _clock(threads: int) -> Clock:
    return time.process_time if threads == 1 else time.perf_counter


def _block_rate(width: int, clock: Clock) -> BlockRate:
    """Seconds a call and multiply-adds a second, from a small piece and one of a cohort's size."""
    config = _config(width)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = BlockNetwork(OPTForCausalLM(config), [1, 2])
        states_BLH = torch.randn(rows_at_once(network, _LENGTH), _LENGTH, width)
    size = network.sizes_M[0]
    work = size + _LENGTH * width  # multiply-adds a position, as round_seconds counts them
    few, many = (
        seconds_of(lambda rows=rows: network.run_block(0, states_BLH[:rows]), clock)
        for rows in (_FEW_ROWS, len(states_BLH))
    )
    positions = (len(states_BLH) - _FEW_ROWS) * _LENGTH
    a_position = max(many - few, 0.1 * many) / positions
    a_call = max(few - _FEW_ROWS * _LENGTH * a_position, 1e-7)
    return BlockRate(size, a_call, work / a_position)


def _config(width: int) -> OPTConfig:
    return OPTConfig(
        vocab_size=64,
        hidden_size=width,
        ffn_dim=4 * width,
        num_hidden_layers=1,
        num_attention_heads=max(1, width // _HEAD_SIZE),
        word_embed_proj_dim=width,
        max_position_embeddings=2 * _LENGTH,
    )


def _noise_rate(kind: str, clock: Clock) -> float:
    weights, directions = torch.zeros(_NOISE_NUMBERS), Directions(kind, [_NOISE_NUMBERS])
    return _NOISE_NUMBERS / seconds_of(lambda: directions.add_to(weights, 1, 0, 1e-3), clock)


def _copy_rate(clock: Clock) -> float:
    weights, other = torch.zeros(_NOISE_NUMBERS), torch.zeros(_NOISE_NUMBERS)
    return 4 * _NOISE_NUMBERS / seconds_of(lambda: other.copy_(weights), clock)


def _disk_rates(folder: str | os.PathLike[str] | None) -> tuple[float, float]:
    """Bytes a second of reading a file that is not in memory, and of writing it to the disk."""
    content = np.random.default_rng(0).bytes(_FILE_BYTES)
    handle, name = tempfile.mkstemp(prefix="zorba-calibration-", dir=folder)
    try:
        started = time.perf_counter()
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        written = time.perf_counter() - started
        with open(name, "rb", buffering=0) as file:
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            started = time.perf_counter()
            while file.read(2**20):
                pass
            read = time.perf_counter() - started
    finally:
        Path(name).unlink(missing_ok=True)
    return _FILE_BYTES / max(read, 1e-6), _FILE_BYTES / max(written, 1e-6)
