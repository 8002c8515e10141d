"""How the cost of each allocation solver grows, beside the paper's Dinic and Algorithm 1. A script, not a test:

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_allocation.py --out artifacts/benchmarks/allocation.json

Seconds are processor time of this process (``cpu_s``, one thread), which other programs on the machine hardly change;
``wall_s`` is beside it. Budgets are U{1..M}, from a seed of each (N, M).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.allocation.allocation_oracles import milp_lambda
from zorba_core.allocation import Problem, solve, sweep
from zorba_core.allocation.scenarios import solve_scenario
from zorba_core.allocation.solvers.lexicographic import _initial_matrix
from zorba_core.engine.settings import Settings
from zorba_core.files import write_json
from zorba_core.fleet import Fleet
from zorba_core.runs.record import environment_of
from zorba_core.vram import model_spec

SEED = 0
CLIENTS = (50, 200, 1000, 10_000, 100_000, 1_000_000)
BLOCKS = (12, 24, 48)
# Cells beyond which the paper's method takes minutes a vector, and the exact programme does not fit in memory.
MOST_CELLS = {"lexicographic": 48_000, "exact": 48_000}


def timed(run: Callable[[], Any], repeats: int = 3) -> tuple[Any, float, float]:
    """(answer, least processor seconds, least wall seconds)."""
    cpu, wall = [], []
    for _ in range(repeats):
        started, started_cpu = time.perf_counter(), time.process_time()
        answer = run()
        wall.append(time.perf_counter() - started)
        cpu.append(time.process_time() - started_cpu)
        if cpu[-1] > 2:
            break
    return answer, min(cpu), min(wall)


def one_request(problem: Problem, solver: str) -> dict[str, Any]:
    """Solve and read what a caller reads: Lambda, V, popularities and blocks held, but no matrix."""

    def run() -> Any:
        _initial_matrix.cache_clear()  # every request is a new one
        solution = solve(problem, solver)
        allocation = solution.allocation
        return solution, allocation.popularity_M, allocation.blocks_held_N, allocation.mean_inverse_popularity

    (solution, *_), cpu, wall = timed(run)
    allocation = solution.allocation
    return {
        "solver": solver,
        "num_clients": problem.num_clients,
        "num_blocks": problem.num_blocks,
        "total": problem.total,
        "cpu_s": cpu,
        "wall_s": wall,
        "lambda": allocation.bias_lambda,
        "lower_bound": solution.lower_bound,
        "optimal": solution.optimal,
        "mean_inverse_popularity": allocation.mean_inverse_popularity,
        "total_blocks": allocation.total_blocks,
    }


def scaling(largest: int) -> list[dict[str, Any]]:
    """Every solver over N and M: budgets alone (beside the paper's method), then 60 % of them as a total."""
    rows = []
    for num_clients in (count for count in CLIENTS if count <= largest):
        for num_blocks in BLOCKS:
            budgets = np.random.default_rng((SEED, num_clients, num_blocks)).integers(1, num_blocks + 1, num_clients)
            for total in (None, int(0.6 * budgets.sum())):
                problem = Problem(budgets, num_blocks, total)
                for solver in ("balanced", "two-level", "exact", "lexicographic"):
                    fits = num_clients * num_blocks <= MOST_CELLS.get(solver, sys.maxsize)
                    if fits and not (solver == "lexicographic" and total is not None):
                        rows.append(one_request(problem, solver))
                        print(json.dumps(rows[-1]), file=sys.stderr)
    paper = {(r["num_clients"], r["num_blocks"]): r["cpu_s"] for r in rows if r["solver"] == "lexicographic"}
    for row in rows:
        of_paper = paper.get((row["num_clients"], row["num_blocks"]))
        row["times_faster_than_paper"] = of_paper / row["cpu_s"] if of_paper else None
    return rows


def sweeps() -> list[dict[str, Any]]:
    """Algorithm 2 with the balanced solver, E = 1000."""
    rows = []
    for num_clients, num_blocks in ((50, 12), (50, 24), (1000, 48)):
        model = dataclasses.replace(model_spec("opt-1.3b"), num_blocks=num_blocks)
        fleet = Fleet.uniform(model, num_clients, seed=SEED)
        front, cpu, wall = timed(lambda fleet=fleet: sweep(fleet, 1000))
        row = {"num_clients": num_clients, "num_blocks": num_blocks, "num_epsilons": 1000, "cpu_s": cpu, "wall_s": wall}
        rows.append({**row, "hypervolume": front.hypervolume, "on_front": int(front.on_front_E.sum())})
    return rows


def exact_fronts(step: dict[str, int]) -> list[dict[str, Any]]:
    """Proofs along whole fronts of the paper's fleets: every total for OPT-125M, a grid for OPT-1.3B."""
    rows = []
    for name, seed in (("opt-125m", 0), ("opt-125m", 1), ("opt-1.3b", 0), ("opt-1.3b", 1)):
        model = model_spec(name)
        budgets = Fleet.uniform(model, 50, seed=seed).budget_N
        totals = range(50, int(budgets.sum()) + 1, step[name])
        seconds, unproven, excess = [], [], []
        for total in totals:
            problem = Problem(budgets, model.num_blocks, total)
            solution, cpu, _ = timed(lambda problem=problem: solve(problem, "exact", time_limit=60), repeats=1)
            seconds.append(cpu)
            excess.append(solve(problem, "two-level").value / solution.value - 1)
            if not solution.optimal:
                unproven.append({"total": total, "lambda": solution.value, "lower_bound": solution.lower_bound})
        rows.append(
            {
                "model": name,
                "fleet_seed": seed,
                "totals": len(totals),
                "unproven": unproven,
                "cpu_s_median": float(np.median(seconds)),
                "cpu_s_max": max(seconds),
                "two_level_optimal_share": float(np.mean(np.array(excess) < 1e-9)),
                "two_level_mean_excess": float(np.mean(excess)),
                "two_level_max_excess": max(excess),
            }
        )
        print(json.dumps(rows[-1]), file=sys.stderr)
    return rows


def against_highs(time_limit: float) -> list[dict[str, Any]]:
    """The same request as a MILP, written from the definition, for SciPy's HiGHS."""
    rows = []
    for num_clients, num_blocks, share in ((8, 5, 0.8), (12, 6, 0.7), (50, 12, 0.6)):
        budgets = np.random.default_rng((SEED, num_clients, num_blocks)).integers(1, num_blocks + 1, num_clients)
        total = int(share * budgets.sum())
        problem = Problem(budgets, num_blocks, total)
        solution, cpu, _ = timed(lambda problem=problem: solve(problem, "exact"))
        (value, bound), highs_cpu, _ = timed(
            lambda budgets=budgets, num_blocks=num_blocks, total=total: milp_lambda(
                budgets, num_blocks, total, time_limit=time_limit
            ),
            repeats=1,
        )
        rows.append(
            {
                "num_clients": num_clients,
                "num_blocks": num_blocks,
                "total": total,
                "exact": {"cpu_s": cpu, "lambda": solution.value, "optimal": solution.optimal},
                "highs": {"cpu_s": highs_cpu, "lambda": value, "lower_bound": bound, "time_limit_s": time_limit},
            }
        )
        print(json.dumps(rows[-1]), file=sys.stderr)
    return rows


def scenarios() -> dict[str, Any]:
    """Finding SC1, SC2 and SC3 for fleets of 50."""
    seconds = []
    for name in ("opt-125m", "opt-1.3b"):
        model = model_spec(name)
        for seed in range(5):
            budgets = Fleet.uniform(model, 50, seed=seed).budget_N
            for share, target in ((0.6, 0.5), (0.85, 0.5), (0.85, 0.95)):
                problem = Problem(budgets, model.num_blocks, int(share * budgets.sum()), "eq")
                seconds.append(timed(lambda p=problem, t=target: solve_scenario(p, t), repeats=1)[1])
    return {"found": len(seconds), "cpu_s_median": float(np.median(seconds)), "cpu_s_max": max(seconds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--largest", type=int, default=max(CLIENTS), help="most clients in the scaling table")
    parser.add_argument("--quick", action="store_true", help="a few totals of each front, 5 s for HiGHS")
    arguments = parser.parse_args()
    result = {"machine": environment_of(Settings(seed=SEED))}
    step = {"opt-125m": 40, "opt-1.3b": 200} if arguments.quick else {"opt-125m": 1, "opt-1.3b": 10}
    result["sweeps"] = sweeps()
    result["scenarios"] = scenarios()
    result["scaling"] = scaling(arguments.largest)
    result["exact_fronts"] = exact_fronts(step)
    result["against_highs"] = against_highs(5.0 if arguments.quick else 60.0)
    write_json(arguments.out, result)


if __name__ == "__main__":
    main()
