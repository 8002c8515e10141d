"""Fig. 4: the shape of the front, and whether SC1 to SC3 can lie on it; the stated complexities."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zorba_core.allocation import Front, Problem, solve, sweep
from zorba_core.allocation.scenarios import PAPER_SCENARIOS, solve_scenario
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.files import read_json
from zorba_core.fleet import Fleet
from zorba_core.study.ledger.claims import Claim
from zorba_core.study.ledger.findings import SCENARIOS
from zorba_core.vram import ModelSpec, Workload, model_spec, psi_block_bytes, psi_model_bytes

N, _FLEETS = 50, 1000
FLEETS_OF_FRONT = 5
_HOW = "zorba report (zorba_core.study.ledger.front_rows)"
_EVIDENCE = ("zorba_core.allocation.sweep", "notebooks/03_pareto_front.ipynb")
TIMINGS = Path("artifacts/benchmarks/allocation.json")


def rows(checkout: Path) -> list[Claim]:
    """
    Raises:
        MissingDataError: the timings are not there; names the command that makes them.
    """
    return [*_front(), *_scenarios(), *_complexities(checkout / TIMINGS)]


def best_of_method(front: Front, ratio: float) -> tuple[float, NDArray[np.int64]]:
    """Lowest Lambda of the paper's method within a VRAM ratio, and the budgets that give it. ``front`` is a sweep of
    the solver ``balanced``, which has the same budgets and gamma*. The method's Lambda lies between N/(gamma*+1)^2 and
    N/gamma*^2, so that only vectors with the largest gamma* can be best: the method itself runs on these alone.

    Raises:
        InvalidInputError: no vector of the sweep lies within the ratio.
    """
    within = np.flatnonzero(front.vram_ratio_E <= ratio)
    if not len(within):
        raise InvalidInputError(f"no vector of the sweep lies within a VRAM ratio of {ratio:g}")
    largest = within[front.min_popularity_E[within] == front.min_popularity_E[within].max()]
    value, i = min((solve(front.problem(i), "lexicographic", seed=(front.seed, int(i))).value, int(i)) for i in largest)
    return value, front.budgets(i)


def front_curve(ratios: np.ndarray, num_epsilons: int = 1000, fleets: int = FLEETS_OF_FRONT) -> np.ndarray:
    """Lowest Lambda of the paper's method within each VRAM ratio, mean over fleets; tau drawn per vector. The numbers
    of ``03_pareto_front``."""
    best = [[_best(seed, float(ratio), num_epsilons)[0] for ratio in ratios] for seed in range(fleets)]
    return np.mean(best, axis=0)


@functools.cache
def _best(seed: int, ratio: float, num_epsilons: int) -> tuple[float, NDArray[np.int64]]:
    return best_of_method(_swept(seed, num_epsilons), ratio)


@functools.cache
def _swept(seed: int, num_epsilons: int) -> Front:
    return sweep(Fleet.uniform("opt-125m", N, seed=seed), num_epsilons, "balanced", "vector", seed)


class AtRatio(NamedTuple):
    """Mean Lambda over fleets within one VRAM ratio."""

    method: float  # the paper's
    same_budgets: float  # proven optimum for the budgets that gave the method's
    same_total: float  # proven optimum for any budgets within the capacities and the same VRAM in all


def at_ratio(ratio: float, num_epsilons: int = 1000, fleets: int = FLEETS_OF_FRONT) -> AtRatio:
    """What Theorem 3 costs at equal budgets, and what moving memory between clients brings on top."""
    rows = []
    for seed in range(fleets):
        fleet = Fleet.uniform("opt-125m", N, seed=seed)
        value, budgets = _best(seed, ratio, num_epsilons)
        own = Problem(budgets, fleet.num_blocks)
        total = total_at_most(ratio, fleet.capacity_N_bytes, fleet.model, fleet.workload)
        rows.append((value, solve(own, "exact").value, solve(fleet, "exact", total=total).value))
    return AtRatio(*(float(mean) for mean in np.mean(rows, axis=0)))


def total_at_most(ratio: float, capacity_N_bytes: NDArray, model: ModelSpec, workload: Workload) -> int:
    """The largest total of activated blocks whose VRAM lies within the ratio."""
    free = ratio * capacity_N_bytes.sum() - len(capacity_N_bytes) * psi_model_bytes(model, workload)
    return int(free // psi_block_bytes(model, workload))


def _front() -> list[Claim]:
    ratios = np.linspace(0.5, 0.95, 10)
    curve = front_curve(ratios)
    falls = bool((np.diff(curve) <= 1e-9).all())
    share = (curve[:-1] - curve[1:]) / (curve[0] - curve[-1])
    early, middle, late = share[:3].sum(), share[3:6].sum(), share[6:].sum()
    table = ", ".join(f"{ratio:.2f}: {value:.3f}" for ratio, value in zip(ratios[::2], curve[::2], strict=True))
    slow_first = early < middle
    apart = at_ratio(0.6)
    return [
        Claim(
            id="fig-4a/trend",
            claim="activating more blocks, Lambda generally descends",
            where="Fig. 4(a); section V-B3",
            printed=None,
            ours=f"Lambda by VRAM ratio {table}",
            unit="",
            verdict="reproduced" if falls else "contradicted",
            how="zorba pareto --model opt-125m --clients 50 --epsilons 1000 --solver lexicographic --tau vector",
            evidence=_EVIDENCE,
            note=f"the paper's method, OPT-125M, SST-2, 50 clients, mean of {FLEETS_OF_FRONT} fleets, 1000 vectors "
            "each, one tau for all clients",
            counter_example="" if falls else table,
        ),
        Claim(
            id="fig-4a/shape",
            claim="Lambda declines slowly at first, then drops sharply in the middle, then converges to the minimum",
            where="Fig. 4(a); section V-B3",
            printed="slow, sharp, flat",
            ours=f"{early:.0%} of the decline in the first third of the VRAM range, {middle:.0%} in the middle, "
            f"{late:.0%} in the last",
            unit="",
            verdict="reproduced in shape" if slow_first else "contradicted",
            how=_HOW,
            evidence=_EVIDENCE,
            note=f"VRAM ratios 0.5 to 0.95; {table}. The flat end is there. Balanced blocks have Lambda = N M^2 / T^2, "
            "steepest where T is least",
            counter_example=""
            if slow_first
            else f"the first third of the range has {early:.0%} of the decline, the "
            f"middle {middle:.0%}: the drop comes first",
        ),
        Claim(
            id="fig-4a/optimum",
            claim="how far the method's Lambda is from the lowest at a VRAM ratio of 0.6",
            where="not in the paper; beside Fig. 4(a)",
            printed=None,
            ours=f"method {apart.method:.3f}; proven optimum {apart.same_budgets:.3f} at the same budgets, "
            f"{apart.same_total:.3f} at the same VRAM in all",
            unit=f"Lambda, mean of {FLEETS_OF_FRONT} fleets (OPT-125M, 50 clients)",
            verdict="beyond the paper",
            how="zorba report (zorba_core.study.ledger.front_rows.at_ratio)",
            evidence=("zorba_core.study.ledger.front_rows.at_ratio", "notebooks/03_pareto_front.ipynb"),
            note=f"what Theorem 3 and the greedy step cost is the step from {apart.method:.3f} to "
            f"{apart.same_budgets:.3f}; the rest, to {apart.same_total:.3f}, is memory moved between clients, which "
            "one tau for all clients cannot do",
        ),
    ]


def _scenarios() -> list[Claim]:
    model, workload = model_spec("opt-125m"), Workload(batch_size=8, seq_len=128)
    parameters, block = psi_model_bytes(model, workload), psi_block_bytes(model, workload)
    M = model.num_blocks
    fleets = [Fleet.uniform(model, N, seed=seed, workload=workload) for seed in range(_FLEETS)]
    claims = []
    for name, scenario in PAPER_SCENARIOS.items():
        highest, allowed = [], 0
        for fleet in fleets:
            capacity = fleet.capacity_N_bytes.sum()
            least, most = (
                int(((scenario.vram_ratio + slack) * capacity - N * parameters) // block) for slack in (-0.005, 0.005)
            )
            # The method ends with every popularity at gamma or gamma + 1, gamma = floor(T / M).
            lambdas = [(N / (total // M + 1) ** 2, N / (total // M) ** 2) for total in range(least, most + 1)]
            low, high = min(low for low, _ in lambdas), max(high for _, high in lambdas)
            allowed += low <= scenario.bias_lambda + 0.005 and scenario.bias_lambda - 0.005 <= high
            highest.append(high)
        total = fleets[0].total_at_ratio(scenario.vram_ratio)
        built = solve_scenario(Problem(fleets[0].budget_N, M, total), scenario.bias_lambda)
        balanced = solve(fleets[0], total=total).value
        holds = allowed >= _FLEETS / 20
        claims.append(
            Claim(
                id=f"fig-4a/{name.lower()}",
                claim=f"{name}, Lambda {scenario.bias_lambda} at VRAM ratio {scenario.vram_ratio}, is a point of the "
                "method's Pareto front",
                where="Fig. 4(a); section V-B4",
                printed=scenario.bias_lambda,
                ours=round(float(np.median(highest)), 3),
                unit=f"highest Lambda that the method can end with at this ratio, median of {_FLEETS} fleets",
                verdict="reproduced" if holds else "contradicted",
                how=f"zorba scenario --model opt-125m --clients 50 --name {name}",
                evidence=("zorba_core.allocation.scenarios.solve_scenario", *_EVIDENCE),
                note=f"{allowed} of {_FLEETS} fleets allow it, with figures rounded as printed. It can be constructed: "
                f"{total} blocks, Lambda {built.value:.3f}; balanced at the same total has {balanced:.3f}",
                counter_example=""
                if holds
                else "the method leaves popularities gamma and gamma + 1, hence Lambda of "
                f"at most N / gamma^2: too little in {_FLEETS - allowed} of {_FLEETS} fleets at this ratio",
                finding=SCENARIOS,
            )
        )
    return claims


def _complexities(path: Path) -> list[Claim]:
    seconds = read_timings(path)
    small, large = min(seconds["lexicographic"]), max(seconds["lexicographic"])
    growth = {
        pair: (seconds["lexicographic"][pair[1]] / seconds["lexicographic"][pair[0]])
        / (_stated(*pair[1]) / _stated(*pair[0]))
        for pair in ((small, large), ((large[0], small[1]), large))
    }
    overall, in_blocks = growth.values()
    exact = seconds["exact"][50, 12]
    return [
        Claim(
            id="complexity/lexicographic",
            claim="one reduction vector costs O(MN (sqrt(M+N) log N + min(M, N)))",
            where="section IV-B, after Algorithm 1",
            printed="O(MN (sqrt(M+N) log N + min(M, N)))",
            ours=round(overall, 2),
            unit="growth of time over growth of the stated cost, smallest to largest size (1 or less: within it)",
            verdict="reproduced in shape" if max(overall, in_blocks) <= 1 else "undecided",
            how="python -m tests.benchmarks.bench_allocation",
            evidence=(str(TIMINGS),),
            note=f"{1e3 * seconds['lexicographic'][small]:.0f} ms at N={small[0]}, M={small[1]}; "
            f"{seconds['lexicographic'][large]:.1f} s at N={large[0]}, M={large[1]}; in M alone time grows "
            f"{in_blocks:.1f} times as fast as stated, and a few "
            "sizes decide no asymptotic claim. Closed form and wrap-around give the same gamma* in O(N)",
        ),
        Claim(
            id="complexity/exponential",
            claim="problem P2 has to be replaced since solving it costs up to O(2^(MN)) and does not scale",
            where="section IV-B",
            printed="O(2^(MN))",
            ours=f"{exact:.3g} s to the proven optimum",
            unit="N=50, M=12, one core",
            verdict="contradicted",
            how="python -m tests.benchmarks.bench_allocation",
            evidence=(str(TIMINGS), "zorba_core.allocation.solve"),
            note="what is contradicted is that it has to be replaced: that enumeration costs up to O(2^(MN)) is true, "
            "and no lower bound on the problem; whether it is NP-hard is open here. "
            "Larger M can end with a gap, which the solver then reports",
            counter_example=f"the exact solver proves the least Lambda at the paper's size in {exact:.3g} s",
        ),
        Claim(
            id="complexity/np-hard",
            claim="P1 is an NP-hard integer programme",
            where="section IV-A",
            printed="NP-hard",
            ours=None,
            unit="",
            verdict="cannot be tested here",
            how="a reduction from a problem known to be NP-hard, which the paper does not give",
            evidence=("zorba_core.allocation.solvers.exact",),
            note="stated without proof or citation; no experiment decides it",
        ),
    ]


def _stated(num_clients: int, num_blocks: int) -> float:
    return (
        num_blocks
        * num_clients
        * (math.sqrt(num_blocks + num_clients) * math.log2(num_clients) + min(num_blocks, num_clients))
    )


def read_timings(path: Path) -> dict[str, dict[tuple[int, int], float]]:
    """Processor seconds by solver and (N, M), of allocations without a total.

    Raises:
        MissingDataError, InvalidInputError: no such file, or not what the benchmark writes.
    """
    if not path.is_file():
        raise MissingDataError(f"{path} does not exist; make it with: python -m tests.benchmarks.bench_allocation")
    try:
        timings: dict[str, dict[tuple[int, int], float]] = {}
        for row in read_json(path)["scaling"]:
            if row["total"] is None:
                timings.setdefault(row["solver"], {})[row["num_clients"], row["num_blocks"]] = float(row["cpu_s"])
        timings["lexicographic"], timings["exact"][50, 12]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{path}: not what tests.benchmarks.bench_allocation writes ({error})") from None
    return timings
