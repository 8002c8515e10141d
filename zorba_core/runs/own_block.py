"""One block of a model, measured at the length of its own rows and along its own directions: for ``zorba plan``.

A network of the model's sizes with three blocks and random weights, no more than a block's time depends on. What a
block costs follows from passes through it with few rows, a client's and a cohort's; from the difference of two exact
passes that differ in two blocks; and from directions added to its weights and to an update.

Shapes: N clients, B rows of a client, L positions, H hidden size, Q directions.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from zorba_core.engine.adapters import with_adapters
from zorba_core.engine.aggregation import shared_step
from zorba_core.engine.directions import Directions, directions_of
from zorba_core.engine.estimators.client_gradients import ClientGradients
from zorba_core.engine.estimators.cohort import moved, rows_at_once
from zorba_core.engine.estimators.exact import gather_gradients, scalars_along
from zorba_core.engine.estimators.jvp import estimate_jvp
from zorba_core.engine.methods.first_order import gradient_cohort
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.rows import Encoded
from zorba_core.engine.scaled_directions import ScaledDirections
from zorba_core.engine.settings import TrainSettings
from zorba_core.planning.engine_memory import Load
from zorba_core.planning.gradient_plan import GradientPlan
from zorba_core.planning.methods import method_facts
from zorba_core.planning.shapes import ModelShape
from zorba_core.runs.rates import BlockSeconds, Points, seconds_of_rows, way_back

_BLOCKS, _VOCABULARY = 3, 64
# Bytes of three blocks and of what goes through them, and multiplications of a pass that is measured: a larger model,
# or longer rows, are planned by the general rates.
_MOST_BYTES, _MOST_WORK = 2**30, 10**11
_SECONDS_EACH, _LEAST_TIMES = 0.15, 3
_FEW_ROWS, _SUMMED = 2, 4  # of a pass; directions of an update
_MOST_ROWS = 512  # of all clients' in FedIT's one pass
_BOTH_WAYS = 3  # the last block and the loss, in forward passes
_LEAST = 1e-7  # a clock may stand still

Clock = Callable[[], float]


def is_small_enough(shape: ModelShape, load: Load) -> bool:
    """Whether three blocks, and what is made of a client's rows, take some seconds and little memory."""
    length, way = load.seq_len, way_back(load)
    at_once = length * min(load.rows_at_once(shape.hidden), load.client_rows)
    kept = load.client_rows * _kept_of_a_row(shape, load, way)
    numbers = _BLOCKS * shape.block_parameters + max(at_once * shape.working_width(length), kept)
    both_ways = 0 if way is None else 3 * _BLOCKS * load.client_rows * length  # a way back takes two passes
    work = shape.block_parameters * max(at_once, both_ways)
    return numbers * load.number_bytes <= _MOST_BYTES and work <= _MOST_WORK


def _kept_of_a_row(shape: ModelShape, load: Load, way: str | None) -> int:
    """Numbers that passes back keep of one row, or hold of it at once; 0 where there are only forward passes."""
    if way == "jvp":  # scores are written out, with their derivatives
        return load.seq_len * (3 * shape.working_width(load.seq_len) + 6 * shape.heads * load.seq_len)
    return 0 if way is None else load.seq_len * (_BLOCKS * shape.saved_width + shape.backward_width)


@torch.no_grad()
def measure_block(
    config: Mapping[str, Any], shape: ModelShape, load: Load, settings: TrainSettings, clock: Clock = time.process_time
) -> BlockSeconds:
    """Measure a model's own block on this machine's CPU.

    Args:
        config: of Hugging Face; ``shape`` is its shape.
        load: a client's; ``num_clients`` that are simulated together, so that as many go back at once.
        settings: the method, directions, dtype and adapters.

    Raises:
        ValueError, TypeError, KeyError, AttributeError, AssertionError, RuntimeError: no model can be made of it.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        bench = _Bench.of(config, shape, load, settings, clock)
        block = bench.forward()
    way = way_back(load)
    return block if way is None else bench.ways_back[way](block)


@torch.no_grad()
def measure_ways_back(
    config: Mapping[str, Any], shape: ModelShape, load: Load, settings: TrainSettings, clock: Clock
) -> dict[str, float]:
    """What goes back through such a block, each way, in forward passes of the same client's rows."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        bench = _Bench.of(config, shape, load, settings, clock)
        block = bench.forward()
    forward = seconds_of_rows(block.passed, load.client_rows, load.rows_at_once(shape.hidden))
    return {way: measured(block).differentiated / forward for way, measured in bench.ways_back.items()}


def seconds_of(run: Callable[[], Any], clock: Clock) -> float:
    """The median of as many calls as fit into a moment; the first is not counted."""
    run()
    times: list[float] = []
    started = time.perf_counter()
    while len(times) < _LEAST_TIMES or time.perf_counter() - started < _SECONDS_EACH:
        before = clock()
        run()
        times.append(clock() - before)
    return max(float(np.median(times)), _LEAST)


def _network(config: Mapping[str, Any], settings: TrainSettings) -> BlockNetwork:
    """Names of code, and of tokens beyond the small vocabulary, are left out."""
    fields = {name: value for name, value in config.items() if not name.endswith("token_id") and name != "auto_map"}
    fields |= {"num_hidden_layers": _BLOCKS, "vocab_size": _VOCABULARY}
    for name in ("n_layer", "num_layers"):  # of GPT-2 and others
        fields |= {name: _BLOCKS} if name in fields else {}
    if isinstance(fields.get("layer_types"), list):
        fields["layer_types"] = fields["layer_types"][:_BLOCKS]
    family = fields.pop("model_type")
    built = AutoConfig.for_model(family, **fields, pad_token_id=None, bos_token_id=None, eos_token_id=None)
    model = AutoModelForCausalLM.from_config(built, trust_remote_code=False)
    if settings.lora is not None:
        with_adapters(model, settings.lora, seed=0)
    return BlockNetwork(model, [1, 2], dtype=getattr(torch, settings.dtype))


def _directions(network: BlockNetwork, settings: TrainSettings) -> Directions:
    plain = directions_of(network, settings)
    if method_facts(settings.method).along != "scaled":
        return plain
    return ScaledDirections(plain, [torch.ones(size, dtype=plain.dtype) for size in network.sizes_M], settings.method)


@dataclass(frozen=True)
class _Bench:
    """A network of three blocks, and what it is measured with."""

    network: BlockNetwork
    shape: ModelShape
    load: Load
    directions: Directions
    clock: Clock

    @classmethod
    def of(
        cls, config: Mapping[str, Any], shape: ModelShape, load: Load, settings: TrainSettings, clock: Clock
    ) -> _Bench:
        network = _network(config, settings)
        return cls(network, shape, load, _directions(network, settings), clock)

    @property
    def ways_back(self) -> dict[str, Callable[[BlockSeconds], BlockSeconds]]:
        """By :func:`zorba_core.runs.rates.way_back`."""
        return {"exact": self.exact, "first-order": self.first_order, "jvp": self.jvp}

    def forward(self) -> BlockSeconds:
        network, load = self.network, self.load
        at_once = max(1, min(rows_at_once(network, load.seq_len), load.max_rows or 2**31))
        own = min(load.client_rows, at_once)
        states_RLH = torch.randn(at_once, load.seq_len, self.shape.hidden, dtype=network.dtype)
        rows = sorted({min(_FEW_ROWS, at_once), own, max(1, at_once // 2), at_once})
        passed = [(r, self._seconds(network.run_block, 0, states_RLH[:r])) for r in rows]
        batches = {r: _batch(r, load.seq_len, 0) for r in sorted({own, at_once})}
        ended = [(r, self._seconds(_end, network, batch, states_RLH[:r])) for r, batch in batches.items()]
        # Weights just written are not where products find them fastest: that is a part of what moving them costs.
        blocks = itertools.cycle(range(_BLOCKS - 1))
        moved = self._seconds(lambda: _pass_moved(network, next(blocks), states_RLH[:own], self.directions))
        seeds = range(_SUMMED)
        updated = self._seconds(
            shared_step, network.block_weights(0), 0, np.ones(len(seeds)), seeds, self.directions
        ) / len(seeds)
        moved = max(moved - dict(passed)[own], _LEAST)
        return BlockSeconds(_from_the_call(passed), _from_the_call(ended), moved, updated, _LEAST, _LEAST)

    def exact(self, block: BlockSeconds) -> BlockSeconds:
        """A piece of clients as large as in a round, once with all gradients and once with the last block's alone."""
        everyone_MN = np.ones((self.shape.num_blocks, self.load.num_clients), bool)
        plan = GradientPlan.of_load(self.shape, self.load, everyone_MN)
        batches = self._batches(plan.positions // self.load.seq_len)
        share, gradients = list(range(len(batches))), ClientGradients(self.network, "frozen")
        plan = replace(plan, shares=[share])

        def a_client(first_active: int) -> float:
            A_MN = np.repeat(np.arange(_BLOCKS)[:, None] >= first_active, len(share), axis=1)
            given = (gradients, batches, A_MN, share, plan, lambda block, clients, gradient_CD: None)
            return self._seconds(gather_gradients, *given) / len(share)

        with gradients.installed():
            everything, end = a_client(0), a_client(_BLOCKS - 1)
        gradient_CD = torch.zeros(len(share), self.network.sizes_M[0], dtype=self.network.dtype)
        seeds = range(self.load.num_perturbations)
        multiplied = self._seconds(scalars_along, gradient_CD, 0, seeds, self.directions) / len(seeds)
        last = end - (_BLOCKS - 1) * self._each(block.passed, len(share))
        return replace(
            block,
            ended=((0.0, _LEAST), (float(self.load.client_rows), max(last, 2 * _LEAST))),
            differentiated=max((everything - end) / (_BLOCKS - 1), _LEAST),
            multiplied=multiplied,
        )

    def first_order(self, block: BlockSeconds) -> BlockSeconds:
        a_row = _kept_of_a_row(self.shape, self.load, "first-order") * self.load.number_bytes
        most_rows = _MOST_BYTES // a_row
        batches = self._batches(min(_MOST_ROWS, most_rows))
        taken = self._seconds(gradient_cohort, self.network, batches, max_rows=self.load.max_rows) / len(batches)
        ended = tuple((rows, _BOTH_WAYS * seconds) for rows, seconds in block.ended)
        back = (taken - self._each(ended, len(batches))) / (_BLOCKS - 1) - self._each(block.passed, len(batches))
        return replace(block, ended=ended, differentiated=max(back, _LEAST))

    def jvp(self, block: BlockSeconds) -> BlockSeconds:
        """A pass for the loss, and one with derivatives, which are computed at every position of the last block too."""
        taken = self._seconds(
            estimate_jvp, self.network, self._batches(1), np.ones((_BLOCKS, 1), bool), [1], self.directions
        )
        dual = (taken - (_BLOCKS - 1) * self._each(block.passed, 1) - self._each(block.ended, 1)) / _BLOCKS
        return replace(block, differentiated=max(dual, _LEAST))

    def _seconds(self, run: Callable[..., Any], *arguments: Any, **options: Any) -> float:
        return seconds_of(partial(run, *arguments, **options), self.clock)

    def _batches(self, most_rows: int) -> list[Encoded]:
        """Of the load's clients, as many as have so many rows together; of one at least."""
        clients = max(1, min(self.load.num_clients, most_rows // self.load.client_rows))
        return [_batch(self.load.client_rows, self.load.seq_len, n) for n in range(clients)]

    def _each(self, points: Points, clients: int) -> float:
        """Seconds a client of so many that go through together."""
        rows = clients * self.load.client_rows
        return seconds_of_rows(points, rows, self.load.rows_at_once(self.shape.hidden)) / clients


def _end(network: BlockNetwork, batch: Encoded, states_RLH: Tensor) -> None:
    batch.losses(network, batch.after_last_block(network, states_RLH))


def _pass_moved(network: BlockNetwork, block: int, states_RLH: Tensor, directions: Directions) -> None:
    with moved(network, block, directions, 1, 1e-3):
        network.run_block(block, states_RLH)


def _from_the_call(measured: Sequence[tuple[int, float]]) -> Points:
    """From what a call takes by itself, on the line through the first two points."""
    points = [(float(rows), seconds) for rows, seconds in measured]
    if len(points) == 1:
        return ((0.0, _LEAST), *points)
    (few, least), (more, most) = points[:2]
    call = least - few * max(0.0, most - least) / (more - few)
    return ((0.0, max(call, _LEAST)), *points)


def _batch(rows: int, length: int, client: int) -> Encoded:
    generator = np.random.default_rng(client)
    ids_RL = generator.integers(3, _VOCABULARY, (rows, length))
    parts = (ids_RL, np.full(rows, length - 1), generator.integers(0, 2, rows))
    return Encoded(*map(torch.from_numpy, parts))
