"""Fig. 4: the shape of the front, and whether SC1 to SC3 can lie on it; the stated complexities."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np

from zorba_core.allocation import PAPER_SCENARIOS, AllocationProblem, solve, solve_scenario, sweep, total_at_ratio
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.planning.fleets import uniform_fleet
from zorba_core.planning.memory import Workload, psi_block_bytes, psi_model_bytes, whole_block_budgets
from zorba_core.planning.models import model_spec
from zorba_core.study.ledger.claims import Claim

N, _FLEETS = 50, 1000
_HOW = "zorba report (zorba_core.study.ledger.front_rows)"
_EVIDENCE = ("zorba_core.allocation.sweep", "notebooks/03_pareto_front.ipynb")
TIMINGS = Path("artifacts/benchmarks/allocation.json")


def rows(checkout: Path) -> list[Claim]:
    """
    Raises:
        MissingDataError: the timings are not there; names the command that makes them.
    """
    return [*_front(), *_scenarios(), *_complexities(checkout / TIMINGS)]


def front_curve(ratios: np.ndarray, num_epsilons: int = 300, fleets: int = 3) -> np.ndarray:
    """Lowest Lambda of the paper's method within each VRAM ratio, geometric mean over fleets; tau drawn per vector."""
    model, workload = model_spec("opt-125m"), Workload(batch_size=8, seq_len=128)
    curves = []
    for seed in range(fleets):
        fleet = uniform_fleet(model, workload, N, seed)
        front = sweep(fleet.capacity_N_bytes, model, workload, num_epsilons, "lexicographic", "vector", seed)
        within = [front.bias_lambda_E[front.vram_ratio_E <= ratio] for ratio in ratios]
        curves.append([values.min() if len(values) else np.nan for values in within])
    return np.exp(np.nanmean(np.log(np.array(curves)), axis=0))


def _front() -> list[Claim]:
    ratios = np.linspace(0.5, 0.95, 10)
    curve = front_curve(ratios)
    falls = bool((np.diff(curve) <= 1e-9).all())
    share = (curve[:-1] - curve[1:]) / (curve[0] - curve[-1])
    early, middle, late = share[:3].sum(), share[3:6].sum(), share[6:].sum()
    table = ", ".join(f"{ratio:.2f}: {value:.3f}" for ratio, value in zip(ratios[::2], curve[::2], strict=True))
    slow_first = early < middle
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
            note="the paper's method, OPT-125M, SST-2, 50 clients, three fleets, one tau for all clients",
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
            counter_example="" if slow_first else f"the first third of the range has {early:.0%} of the decline, the "
            f"middle {middle:.0%}: the drop comes first",
        ),
    ]  # fmt: skip


def _scenarios() -> list[Claim]:
    model, workload = model_spec("opt-125m"), Workload(batch_size=8, seq_len=128)
    parameters, block = psi_model_bytes(model, workload), psi_block_bytes(model, workload)
    M = model.num_blocks
    fleets = [uniform_fleet(model, workload, N, seed) for seed in range(_FLEETS)]
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
        total = total_at_ratio(scenario.vram_ratio, fleets[0].capacity_N_bytes, model, workload)
        budgets = whole_block_budgets(fleets[0].capacity_N_bytes, model, workload)
        built = solve_scenario(AllocationProblem(budgets, M, total), scenario.bias_lambda)
        balanced = solve(AllocationProblem(budgets, M, total)).value
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
                evidence=("zorba_core.allocation.solve_scenario", *_EVIDENCE),
                note=f"{allowed} of {_FLEETS} fleets allow it, with figures rounded as printed. It can be constructed: "
                f"{total} blocks, Lambda {built.value:.3f}; balanced at the same total has {balanced:.3f}",
                counter_example="" if holds else "the method leaves popularities gamma and gamma + 1, hence Lambda of "
                f"at most N / gamma^2: too little in {_FLEETS - allowed} of {_FLEETS} fleets at this ratio",
            )
        )  # fmt: skip
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
            verdict="reproduced in shape" if overall <= 1 else "contradicted",
            how="python -m tests.benchmarks.bench_allocation",
            evidence=(str(TIMINGS),),
            note=f"{1e3 * seconds['lexicographic'][small]:.0f} ms at N={small[0]}, M={small[1]}; "
            f"{seconds['lexicographic'][large]:.1f} s at N={large[0]}, M={large[1]}; in M alone time grows "
            f"{in_blocks:.1f} times faster than stated. Closed form and wrap-around give the same gamma* in O(N)",
            counter_example="" if overall <= 1 else f"time grows {overall:.1f} times faster than stated",
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
            note="an upper bound on enumeration is no lower bound on the problem; whether it is NP-hard is open here. "
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
    ]  # fmt: skip


def _stated(num_clients: int, num_blocks: int) -> float:
    return num_blocks * num_clients * (
        math.sqrt(num_blocks + num_clients) * math.log2(num_clients) + min(num_blocks, num_clients)
    )  # fmt: skip


def read_timings(path: Path) -> dict[str, dict[tuple[int, int], float]]:
    """Processor seconds by solver and (N, M), of allocations without a total.

    Raises:
        MissingDataError, InvalidInputError: no such file, or not what the benchmark writes.
    """
    if not path.is_file():
        raise MissingDataError(f"{path} does not exist; make it with: python -m tests.benchmarks.bench_allocation")
    try:
        found: dict[str, dict[tuple[int, int], float]] = {}
        for row in json.loads(path.read_text(encoding="utf-8"))["scaling"]:
            if row["total"] is None:
                found.setdefault(row["solver"], {})[row["num_clients"], row["num_blocks"]] = float(row["cpu_s"])
        found["lexicographic"], found["exact"][50, 12]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{path}: not what tests.benchmarks.bench_allocation writes ({error})") from None
    return found
