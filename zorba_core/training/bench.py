"""How fast the training engine is, beside what it cannot beat: plain forward passes over the rows it needs.

All contestants run in one process, taking turns, and medians are compared. On the CPU the time is this process's own
CPU time on one thread, which other work on the machine changes little; elsewhere it is wall time.

A *floor* is the forward work alone, with no noise drawn, no weights moved and no rows routed:

- ``floor``: for full activation Q + 1 plain forward passes of all N * B rows as one batch. For a routed allocation the
  base pass, and for each direction every block on as many rows as have started by then, each block as one batch;
- ``floor_in_pieces``: the same work in pieces as small as the cohort's, the fastest way known to do it on this device.

Shapes: M blocks, N clients, Q directions, R = N * B rows, L positions.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from zorba_core.allocation import Allocation, AllocationProblem, solve
from zorba_core.errors import InvalidInputError
from zorba_core.training import noise
from zorba_core.training.aggregation import average_per_block, update_blocks
from zorba_core.training.cohort import estimate_cohort, rows_at_once
from zorba_core.training.environment import describe
from zorba_core.training.estimator import Estimate, estimate
from zorba_core.training.model_source import load_model
from zorba_core.training.network import BlockNetwork
from zorba_core.training.perturbation import DirectionKind, Directions
from zorba_core.training.randomness import stream
from zorba_core.training.settings import TrainSettings
from zorba_core.training.tasks import Encoded

LR = 1e-7  # so small that the timed model stays what it was
_LABEL_IDS = (10, 20)

Report = Callable[[str], None]


@dataclass(frozen=True)
class BenchSettings:
    """What is timed.

    Raises:
        InvalidInputError: a count below 1.
    """

    model: str = "opt-mini"
    num_clients: int = 50  # N
    batch_size: int = 8  # B
    seq_len: int = 32  # L
    num_perturbations: int = 10  # Q
    total_blocks: int = 200  # T of the routed allocations
    mu: float = 1e-3
    direction: DirectionKind = "rademacher"
    repeats: int = 5
    growth: bool = True  # also how the cost grows with N, Q, M and d
    seed: int = 0
    threads: int = 1
    device: str = "cpu"

    def __post_init__(self) -> None:
        counts = ("num_clients", "batch_size", "seq_len", "num_perturbations", "total_blocks", "repeats", "threads")
        for name in counts:
            if getattr(self, name) < 1:
                raise InvalidInputError(f"{name} is {getattr(self, name)}; it must be at least 1")


def run_bench(settings: BenchSettings, report: Report = lambda line: None) -> dict[str, Any]:
    """Time everything; the result is plain data for JSON."""
    before = torch.get_num_threads()
    torch.set_num_threads(settings.threads)
    try:
        model = load_model(settings.model)
        network = BlockNetwork(model, _LABEL_IDS, device=settings.device)
        result = {
            "settings": asdict(settings),
            "environment": describe(
                TrainSettings(seed=settings.seed, device=settings.device, threads=settings.threads)
            ),
            "clock": "process CPU seconds" if settings.device == "cpu" and settings.threads == 1 else "wall seconds",
            "model": {"num_blocks": network.num_blocks, "block_parameters": sum(network.sizes_M)},
            "rounds": _rounds(network, settings, report),
            "noise": _noise(network, settings, report),
            "padding": _padding(network, settings, report),
            "bfloat16": _bfloat16(model, settings, report),
        }
        if settings.growth:
            result["growth"] = _growth(model, settings, report)
        return result
    finally:
        torch.set_num_threads(before)


def allocations(settings: BenchSettings, num_blocks: int) -> dict[str, Allocation]:
    """Full activation, and T blocks spread evenly or by two levels, as solved and in the order of least work."""
    budget_N = stream("bench-budgets", settings.seed).integers(1, num_blocks + 1, settings.num_clients)
    total = min(settings.total_blocks, int(budget_N.sum()))
    problem = AllocationProblem(budget_N, num_blocks, total=total)

    def solved(solver: str, order: str) -> Allocation:
        return Allocation(solve(problem, solver, block_order=order).allocation.A_MN)

    return {
        "full": Allocation(np.ones((num_blocks, settings.num_clients), dtype=bool)),
        "balanced": solved("balanced", "as-solved"),
        "balanced, least work": solved("balanced", "least-work"),
        "two-level, least work": solved("two-level", "least-work"),
    }


def client_batches(settings: BenchSettings, vocabulary: int, shortest: int | None = None) -> list[Encoded]:
    """Random tokens: each client's rows are ``seq_len`` long, or each row from ``shortest`` to ``seq_len``, then cut to
    the client's longest."""
    generator = stream("bench-rows", settings.seed)
    batches = []
    for _ in range(settings.num_clients):
        length_B = generator.integers(shortest or settings.seq_len, settings.seq_len + 1, settings.batch_size)
        token_ids_BL = generator.integers(3, vocabulary, (settings.batch_size, int(length_B.max())))
        label_B = generator.integers(0, len(_LABEL_IDS), settings.batch_size)
        batches.append(Encoded(*(torch.from_numpy(part) for part in (token_ids_BL, length_B - 1, label_B))))
    return batches


def _rounds(network: BlockNetwork, settings: BenchSettings, report: Report) -> dict[str, Any]:
    """Whole rounds (estimate and update) and their floors, all allocations taking turns with each other."""
    batches_N = client_batches(settings, network.model.config.vocab_size)
    directions = Directions(settings.direction, network.sizes_M, device=settings.device)
    seeds_Q = range(settings.num_perturbations)
    piece = rows_at_once(network, settings.seq_len)

    def whole_round(estimator: Callable[..., Estimate], A_MN: np.ndarray) -> None:
        rho_NQ = estimator(network, batches_N, A_MN, seeds_Q, directions, mu=settings.mu).rho_NQ
        update(A_MN, rho_NQ)

    def update(A_MN: np.ndarray, rho_NQ: np.ndarray) -> None:
        update_blocks(network, average_per_block(rho_NQ, A_MN), seeds_Q, directions, LR)

    def contestants(A_MN: np.ndarray) -> dict[str, Callable[[], None]]:
        started_M = _started(A_MN, settings)
        ones_NQ = np.ones((settings.num_clients, settings.num_perturbations))
        return {
            "cohort": lambda: whole_round(estimate_cohort, A_MN),
            "floor": lambda: _plain_passes(network, batches_N, started_M, settings.num_perturbations, 10**9),
            "floor_in_pieces": lambda: _plain_passes(network, batches_N, started_M, settings.num_perturbations, piece),
            "reference": lambda: whole_round(estimate, A_MN),
            "update, noise drawn again": lambda: update(A_MN, ones_NQ),
        }

    by_name = allocations(settings, network.num_blocks)
    times = _take_turns(
        {(name, key): run for name, allocation in by_name.items() for key, run in contestants(allocation.A_MN).items()},
        settings,
        warm_up=False,  # a round is seconds long
    )
    middle = {key: statistics.median(values) for key, values in times.items()}
    results = {}
    for name, allocation in by_name.items():
        A_MN = allocation.A_MN
        cohort, floor, in_pieces, slow = (
            middle[name, key] for key in ("cohort", "floor", "floor_in_pieces", "reference")
        )
        expected = estimate(network, batches_N, A_MN, [0], directions, mu=settings.mu).rho_NQ
        found = estimate_cohort(network, batches_N, A_MN, [0], directions, mu=settings.mu).rho_NQ
        results[name] = {
            "total_blocks": int(A_MN.sum()),
            "lambda": allocation.bias_lambda,
            "row_blocks_per_direction": int(_started(A_MN, settings).sum()),
            "row_blocks_of_full": A_MN.size * settings.batch_size,
            "rows_at_once": piece,
            "seconds": {key: values for (of, key), values in times.items() if of == name},
            "rounds_per_second": 1 / cohort,
            "cohort_over_floor": cohort / floor,
            "cohort_over_floor_in_pieces": cohort / in_pieces,
            "reference_over_cohort": slow / cohort,
            "faster_than_full": middle["full", "cohort"] / cohort,
            "rho_difference_over_largest": float(np.abs(found - expected).max() / np.abs(expected).max()),
        }
        report(
            f"{name}: {cohort:.2f} s a round, {cohort / floor:.2f} x its floor, {cohort / in_pieces:.2f} x the floor "
            f"in pieces; the reference takes {slow / cohort:.2f} x as long, full activation "
            f"{results[name]['faster_than_full']:.2f} x"
        )
    return results


def _started(A_MN: np.ndarray, settings: BenchSettings) -> np.ndarray:
    """Rows that have started by each block, (M,)."""
    return np.logical_or.accumulate(A_MN, axis=0).sum(axis=1) * settings.batch_size


@torch.no_grad()
def _plain_passes(
    network: BlockNetwork, batches_N: list[Encoded], started_M: np.ndarray, num_perturbations: int, piece: int
) -> None:
    token_ids_RL = torch.cat([batch.token_ids_RL for batch in batches_N]).to(network.device)
    last_R = torch.cat([batch.last_R for batch in batches_N]).to(network.device)
    everyone = len(token_ids_RL)
    for rows_M in [np.full(network.num_blocks, everyone)] + [started_M] * num_perturbations:
        for start in range(0, int(rows_M[-1]), piece):
            stop = min(start + piece, int(rows_M[-1]))
            hidden = network.embed(token_ids_RL[start:stop])
            for m in range(network.num_blocks - 1):
                rows = min(int(rows_M[m]), stop) - start
                if rows == stop - start:
                    hidden = network.run_block(m, hidden)
                elif rows > 0:  # the values do not matter here, the work does
                    network.run_block(m, hidden[:rows])
            network.head(network.run_last_block(hidden, last_R[start:stop]))


def _noise(network: BlockNetwork, settings: BenchSettings, report: Report) -> dict[str, Any]:
    """Parameters a second: drawn alone, and drawn, scaled and added to the weights, beside an addition alone."""
    device = torch.device(settings.device)
    results = {}
    for name, size in (("one block", network.sizes_M[0]), ("one block of OPT-125M", 7_087_872)):
        weights, other = torch.zeros(size, device=device), torch.ones(size, device=device)
        signs, normals = Directions("rademacher", [size], device=device), Directions("gaussian", [size], device=device)
        contestants = {
            "signs drawn": lambda size=size: noise.signs(1, 0, 0, size, device),
            "normals drawn": lambda size=size: noise.normals(1, 0, 0, size, device),
            "w + mu v, rademacher": lambda weights=weights, signs=signs: signs.add_to(weights, 1, 0, 1e-3),
            "w + mu v, gaussian": lambda weights=weights, normals=normals: normals.add_to(weights, 1, 0, 1e-3),
            "w + x": lambda weights=weights, other=other: torch.add(weights, other),
            "torch.randn": lambda size=size: torch.randn(size, device=device),
        }
        # As many calls a turn as make some millions of numbers, as a pass over all blocks does.
        calls = max(1, 2**22 // size)
        times = _take_turns(
            {key: lambda run=run, calls=calls: _call(run, calls) for key, run in contestants.items()},
            replace(settings, repeats=15),
        )
        rates = {key: calls * size / statistics.median(values) for key, values in times.items()}
        results[name] = {"parameters": size, "parameters_per_second": rates}
        report(f"noise, {name}: " + ", ".join(f"{key} {rate / 1e9:.2f} G/s" for key, rate in rates.items()))
    return results


def _padding(network: BlockNetwork, settings: BenchSettings, report: Report) -> dict[str, Any]:
    """Rows of unequal length: clients grouped by their own longest row, or all padded to the longest of all."""
    own = client_batches(settings, network.model.config.vocab_size, shortest=max(1, settings.seq_len // 4))
    padded = [
        replace(
            batch,
            token_ids_RL=nn.functional.pad(
                batch.token_ids_RL, (0, settings.seq_len - batch.token_ids_RL.shape[1]), value=1
            ),
        )
        for batch in own
    ]
    A_MN = np.ones((network.num_blocks, settings.num_clients), dtype=bool)
    directions = Directions(settings.direction, network.sizes_M, device=settings.device)
    times = _take_turns(
        {
            name: lambda rows=rows: estimate_cohort(network, rows, A_MN, [0, 1], directions, mu=settings.mu)
            for name, rows in (("by each client's longest row", own), ("by the longest row of all", padded))
        },
        settings,
    )
    middle = [statistics.median(values) for values in times.values()]
    report(f"padding to the longest row of all costs {middle[1] / middle[0]:.2f} x")
    return {"seconds": times, "padded_over_grouped": middle[1] / middle[0]}


def _bfloat16(model: nn.Module, settings: BenchSettings, report: Report) -> dict[str, Any]:
    """The same estimate with weights and hidden states in bfloat16: its time, and rho's error against float64."""
    few = replace(settings, num_clients=min(10, settings.num_clients))
    batches_N = client_batches(few, model.config.vocab_size)
    runs: dict[str, Callable[[], None]] = {}
    found: dict[str, Estimate] = {}
    for name, dtype in {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}.items():
        network = BlockNetwork(copy.deepcopy(model), _LABEL_IDS, dtype=dtype, device=few.device)
        A_MN = np.ones((network.num_blocks, few.num_clients), dtype=bool)
        directions = Directions(few.direction, network.sizes_M, dtype=dtype, device=few.device)

        def run(name=name, network=network, A_MN=A_MN, directions=directions) -> None:
            found[name] = estimate_cohort(network, batches_N, A_MN, range(2), directions, mu=few.mu)

        runs[name] = run
    times = _take_turns(runs, few)
    exact = found["float64"].rho_NQ
    error = {
        name: float(np.sqrt(np.square(found[name].rho_NQ - exact).mean() / np.square(exact).mean()))
        for name in ("float32", "bfloat16")
    }
    speed = statistics.median(times["float32"]) / statistics.median(times["bfloat16"])
    report(f"bfloat16: {speed:.2f} x as fast as float32; error of rho {error['bfloat16']:.3f} ({error['float32']:.1e})")
    return {"seconds": times, "bfloat16_speed_over_float32": speed, "rho_rms_error_relative_to_float64": error}


def _growth(model: nn.Module, settings: BenchSettings, report: Report) -> dict[str, Any]:
    """Seconds of a full cohort round as one of N, Q, M and d changes. Blocks are the model's, repeated or left out;
    d is the block's width in a model of random weights."""
    base = replace(settings, num_clients=20, num_perturbations=4, repeats=min(2, settings.repeats))
    cases: dict[str, tuple[BenchSettings, nn.Module]] = {}
    for count in (10, 20, 40, 80):
        cases[f"N = {count}"] = (replace(base, num_clients=count), model)
    for count in (2, 4, 8, 16):
        cases[f"Q = {count}"] = (replace(base, num_perturbations=count), model)
    for count in (6, 12, 24):
        cases[f"M = {count}"] = (base, _like(model, num_hidden_layers=count))
    for width in (48, 96, 192):
        sizes = {"hidden_size": width, "word_embed_proj_dim": width, "ffn_dim": 4 * width}
        cases[f"H = {width}"] = (base, _like(model, **sizes))
    runs, facts = {}, {}
    for name, (case, built) in cases.items():
        network = BlockNetwork(copy.deepcopy(built), _LABEL_IDS, device=case.device)
        rows = client_batches(case, built.config.vocab_size)
        A_MN = np.ones((network.num_blocks, case.num_clients), dtype=bool)
        directions = Directions(case.direction, network.sizes_M, device=case.device)
        seeds_Q = range(case.num_perturbations)
        facts[name] = {"block_parameters": sum(network.sizes_M)}
        runs[name] = lambda network=network, rows=rows, A_MN=A_MN, seeds_Q=seeds_Q, directions=directions: (
            estimate_cohort(network, rows, A_MN, seeds_Q, directions, mu=settings.mu)
        )
    times = _take_turns(runs, base)
    report("growth: " + ", ".join(f"{name} {statistics.median(values):.2f} s" for name, values in times.items()))
    return {name: facts[name] | {"seconds": statistics.median(values)} for name, values in times.items()}


def _like(model: nn.Module, **changes: int) -> nn.Module:
    """A randomly initialised model of the same family."""
    config = copy.deepcopy(model.config)
    for name, value in changes.items():
        if not hasattr(config, name):
            raise InvalidInputError(
                f"how cost grows is timed for models whose config has {name}, and {config.model_type} has not; "
                "leave it out with --no-growth"
            )
        setattr(config, name, value)
    return type(model)(config)


def _call(run: Callable[[], Any], calls: int) -> None:
    for _ in range(calls):
        run()  # the result is dropped at once, as in a pass: kept results would be timed finding memory


def _take_turns(
    contestants: Mapping[Any, Callable[[], Any]], settings: BenchSettings, *, warm_up: bool = True
) -> dict[Any, list[float]]:
    """Seconds of each, ``repeats`` times, one after another in turn; a first turn to warm up is not counted."""
    clock = time.process_time if settings.device == "cpu" and settings.threads == 1 else time.perf_counter
    times: dict[Any, list[float]] = {name: [] for name in contestants}
    for turn in range(settings.repeats + warm_up):
        for name, run in contestants.items():
            started = clock()
            run()
            if settings.device == "cuda":
                torch.cuda.synchronize()
            if turn >= warm_up:
                times[name].append(clock() - started)
    return times
