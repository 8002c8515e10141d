"""Claims that enumeration and proven optima decide: the observations, Theorems 3 and 4, Algorithms 1 and 2, the front
and its scenarios, and the stated costs. Shapes: M blocks, N clients, E reduction vectors."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from notebooks.reproduction.outcome import Decision, Verdict, claim
from notebooks.reproduction.toy import class_lambdas, lettered_classes, single_steps, uneven_pairs
from zorba_core.allocation import (
    PAPER_SCENARIOS,
    Front,
    Problem,
    gamma_star,
    gamma_star_by_subsets,
    solve,
    solve_scenario,
    sweep,
)
from zorba_core.allocation.measures import bias_lambda, least_popularity, popularity
from zorba_core.allocation.solvers.lexicographic import can_be_met, initial_matrix
from zorba_core.errors import MissingDataError
from zorba_core.files import read_json
from zorba_core.fleet import Fleet
from zorba_core.vram import psi_block_bytes, psi_model_bytes

N, FLEETS, VECTORS = 50, 5, 1000
TIMINGS = Path("artifacts/benchmarks/allocation.json")


# --- the toy ---------------------------------------------------------------------------------------------


@claim("observation-1", "Observation 1", "More activated blocks generally lower Lambda; all blocks give the lowest.")
def observation_1() -> Decision:
    """By enumeration of all 265 matrices of three blocks and three clients. It concerns Lambda, not training."""
    classes, value = lettered_classes(), class_lambdas()
    means, lowest = [], []
    for total in range(3, 10):
        here = [letter for letter, each in classes.items() if each.total_blocks == total]
        count = sum(classes[letter].count for letter in here)
        means.append(sum(value[letter] * classes[letter].count for letter in here) / count)
        lowest.append(min(value[letter] for letter in here))
    falls = all(b < a for a, b in itertools.pairwise(means)) and all(b <= a for a, b in itertools.pairwise(lowest))
    full_alone = list(value.values()).count(min(value.values())) == 1 and lowest[-1] == min(lowest)
    return falls and full_alone, (
        f"mean Lambda falls at each step from 3 to 9 blocks, from {float(means[0]):.2f} to {float(means[-1]):.2f}; "
        "only full activation has the lowest"
    )


@claim("observation-2", "Observation 2", "More activated blocks do not always lower Lambda.")
def observation_2() -> Decision:
    """By enumeration of all 265 matrices of three blocks and three clients. It concerns Lambda, not training."""
    signs = [sign for _, _, sign in single_steps()]
    lower, same, higher = (signs.count(sign) for sign in (-1, 0, 1))
    text = f"of {len(signs)} ways to add one block, {lower} lower Lambda, {same} do not change it, {higher} raise it"
    return same + higher > 0, text


@claim("observation-3", "Observation 3", "One more activated block can raise Lambda.")
def observation_3() -> Decision:
    """Over all 17 classes of three blocks and three clients. The text of the paper does not contain the figure's
    matrices."""
    value, size = class_lambdas(), {letter: each.total_blocks for letter, each in lettered_classes().items()}
    pairs = [(a, b) for a, b in itertools.permutations(size, 2) if size[b] == size[a] + 1 and value[a] < value[b]]
    fewer, more = max(pairs, key=lambda pair: value[pair[1]] / value[pair[0]])
    return bool(pairs), (
        f"Lambda rises in {len(pairs)} pairs of classes, at most from {float(value[fewer]):.2f} with {size[fewer]} "
        f"blocks to {float(value[more]):.2f} with one more"
    )


@claim("observation-4", "Observation 4", "At equal totals a more imbalanced allocation can have the lower Lambda.")
def observation_4() -> Decision:
    """Over all 17 classes of three blocks and three clients. Majorisation compares the popularities of the blocks and
    the numbers of blocks of the clients."""
    lower, higher = map(len, uneven_pairs())
    text = f"the more uneven matrix has the lower Lambda in {lower} pairs and the higher in {higher}"
    return lower > 0, f"{text}: an example, not a rule"


# --- Theorems 3 and 4 ------------------------------------------------------------------------------------


@claim(
    "theorem-3", "Theorem 3", "Minimal Lambda means the largest least popularity first, then the fewest clients at it."
)
def theorem_3() -> Decision:
    """The exact solver gives the lowest Lambda, enumeration the other value. The best matrix has popularities 5, 2 and
    2."""
    budget_N, M = np.array([3, 2, 1, 1, 1, 1]), 3
    best = solve(Problem(budget_N, M), "exact")
    largest = gamma_star(budget_N, M)
    by_rule = min(bias_lambda(A_MN) for A_MN in all_matrices(budget_N, M) if least_popularity(A_MN).min() == largest)
    return best.value > by_rule - 1e-9, (
        f"budgets 3,2,1,1,1,1 and three blocks: lowest Lambda {best.value:.3f}; with the largest least popularity "
        f"{by_rule:.3f}"
    )


def all_matrices(budget_N: NDArray[np.int64], num_blocks: int) -> list[NDArray[np.bool_]]:
    """Every matrix within the budgets in which each block has a client and each client a block. For small cases."""
    columns = [
        [column for column in itertools.product((False, True), repeat=num_blocks) if 1 <= sum(column) <= budget]
        for budget in budget_N
    ]
    matrices = (np.array(chosen).T for chosen in itertools.product(*columns))
    return [A_MN for A_MN in matrices if popularity(A_MN).min() > 0]


@claim(
    "theorem-3/full-size",
    "Theorem 3; Algorithm 2",
    "At the paper's size the method comes close to the lowest Lambda.",
)
def theorem_3_full_size(ratio: float = 0.6) -> Decision:
    """Means over five fleets; OPT-125M, SST-2, 50 clients; 1000 vectors on each fleet, one tau for all clients."""
    rows = []
    for seed in range(FLEETS):
        fleet = Fleet.uniform("opt-125m", N, seed=seed)
        method, budget_N = best_within(seed, ratio)
        same_budgets = solve(Problem(budget_N, fleet.num_blocks), "exact").value
        rows.append((method, same_budgets, solve(fleet, "exact", total=total_at_most(ratio, fleet)).value))
    method, same_budgets, same_vram = np.mean(rows, axis=0)
    return same_budgets > method - 1e-9, (
        f"at a VRAM ratio of {ratio} the method has Lambda {method:.3f}; proven optimum {same_budgets:.3f} at the same "
        f"budgets, {same_vram:.3f} at the same total VRAM"
    )


def total_at_most(ratio: float, fleet: Fleet) -> int:
    """The largest total of activated blocks whose VRAM lies within the ratio."""
    free = ratio * fleet.capacity_N_bytes.sum() - fleet.num_clients * psi_model_bytes(fleet.model, fleet.workload)
    return int(free // psi_block_bytes(fleet.model, fleet.workload))


@functools.cache
def swept(seed: int) -> Front:
    """The sweep of fleet ``seed`` by ``balanced``, which has the same budgets and gamma* as the paper's method."""
    return sweep(Fleet.uniform("opt-125m", N, seed=seed), VECTORS, "balanced", "vector", seed)


@functools.cache
def best_within(seed: int, ratio: float) -> tuple[float, NDArray[np.int64]]:
    """Lowest Lambda of the paper's method within a VRAM ratio, and its budgets. The method's Lambda lies between
    N/(gamma*+1)^2 and N/gamma*^2. So only a vector with the largest gamma* can be best, and the method runs on these
    alone."""
    front = swept(seed)
    within = np.flatnonzero(front.vram_ratio_E <= ratio)
    largest = within[front.min_popularity_E[within] == front.min_popularity_E[within].max()]
    value, i = min((solve(front.problem(i), "lexicographic", seed=(seed, int(i))).value, int(i)) for i in largest)
    return value, front.budgets(i)


@claim("theorem-4", "Theorem 4", "gamma* is the minimum over sets of blocks.")
def theorem_4(cases: int = 200) -> Decision:
    """The set of all blocks always attains the minimum, so gamma* is floor(sum of budgets / M)."""
    agree = 0
    for M, budget_N in random_budgets(cases, 2):
        gamma = gamma_star(budget_N, M)
        by_flow = can_be_met(budget_N, M, gamma) and not can_be_met(budget_N, M, gamma + 1)
        agree += by_flow and gamma == gamma_star_by_subsets(budget_N, M)
    return agree == cases, f"for whole blocks it agrees with a maximum flow in {agree} of {cases} random cases"


def random_budgets(cases: int, least_blocks: int) -> list[tuple[int, NDArray[np.int64]]]:
    """(M, budgets) of random instances of up to 8 blocks and 14 clients."""
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(cases):
        M = int(rng.integers(least_blocks, 9))
        drawn.append((M, rng.integers(1, M + 1, size=int(rng.integers(M, 15)))))
    return drawn


@functools.cache
def real_budgets() -> NDArray[np.float64]:
    """(psi_max - psi_md - epsilon) / psi_block as printed, of 1000 vectors, (E, N). One tau for all clients."""
    fleet = Fleet.uniform("opt-125m", N)
    tau_E = np.random.default_rng(1).random(VECTORS)
    free_EN = fleet.capacity_N_bytes * (1 - tau_E[:, None]) - psi_model_bytes(fleet.model, fleet.workload)
    return free_EN / psi_block_bytes(fleet.model, fleet.workload)


@claim("theorem-4/fractions", "Theorem 4, eq. (10)", "The formula holds for budgets in fractions of blocks.")
def theorem_4_fractions() -> Decision:
    """Example: two clients can each hold 1.5 of three blocks. The formula gives 1, but one block has no client."""
    budget_EN = np.clip(real_budgets(), 1, 12)
    too_high = int((np.floor(budget_EN.sum(axis=1) / 12) > np.floor(budget_EN).sum(axis=1) // 12).sum())
    return too_high == 0, f"no matrix attains the printed gamma* for {too_high} of {VECTORS} vectors"


@claim("p2/equality", "IV-B, (P2)", "VRAM equals capacity less reduction.")
def p2_equality() -> Decision:
    """As an upper limit the constraint can be met, and Algorithm 1 treats it so."""
    budget_EN = real_budgets()
    whole = int((np.abs(budget_EN - np.round(budget_EN)) < 1e-9).all(axis=1).sum())
    return whole > 0, f"the equality needs whole blocks for every client; {whole} of {VECTORS} vectors leave that"


@claim("p1/one-block", "IV-A, (7b); IV-B", "Every reduction vector leaves each client at least one block.")
def p2_one_block() -> Decision:
    """A client with less than one block leaves constraint (7b) without a solution. The suite gives such a client one
    block and counts it."""
    short_E = (real_budgets() < 1).sum(axis=1)
    return not short_E.any(), (
        f"{int((short_E > 0).sum())} of {VECTORS} vectors leave some client less than one block; in the median vector "
        f"{int(np.median(short_E))} of {N} clients"
    )


# --- Algorithm 1 -----------------------------------------------------------------------------------------


def greedy(initial_MN: NDArray[np.bool_], budget_N: NDArray[np.int64], by_text: bool) -> tuple[NDArray[np.bool_], bool]:
    """Algorithm 1 with one of its two gains for block m. Line 5: the clients of F with m in their bottleneck set. The
    text: the clients whose least popularity would rise, since their bottleneck set is m alone. The first client with
    room takes the block. Returns the matrix, and whether the candidate set was empty while L and F were not."""
    A_MN = initial_MN.copy()
    gamma = popularity(A_MN).min()
    low_M = popularity(A_MN) == gamma  # L
    while low_M.any() and (least_popularity(A_MN) == gamma).any():
        bottleneck_MN = A_MN & (popularity(A_MN) == gamma)[:, None]
        can_take_MN = ~A_MN & (A_MN.sum(axis=0) < budget_N)
        candidate_C = np.flatnonzero(low_M & can_take_MN.any(axis=1))
        if not candidate_C.size:
            return A_MN, True
        rising_MN = bottleneck_MN & (bottleneck_MN.sum(axis=0) == 1) if by_text else bottleneck_MN
        best = candidate_C[rising_MN[candidate_C].sum(axis=1).argmax()]
        A_MN[best, np.flatnonzero(can_take_MN[best])[0]] = True
        low_M[best] = False
    return A_MN, False


@functools.cache
def greedy_cases(cases: int = 500) -> list[tuple[int, int, bool]]:
    """Clients left at gamma* by line 5 and by the text, and whether line 5's loop reached an empty candidate set."""
    ends = []
    for M, budget_N in random_budgets(cases, 4):
        A_MN = initial_matrix(budget_N, M)
        gamma = popularity(A_MN).min()
        (line_MN, stuck), (text_MN, _) = (greedy(A_MN, budget_N, by_text) for by_text in (False, True))
        left = ((least_popularity(end_MN) == gamma).sum() for end_MN in (line_MN, text_MN))
        ends.append((*map(int, left), stuck))
    return ends


@claim("algorithm-1/gain", "Algorithm 1", "The text and line 5 define the same gain.", fails=Verdict.MISPRINT)
def algorithm_1_gain() -> Decision:
    """The text counts only the clients whose least popularity would rise. Line 5 counts every client for which the
    block is one of the bottlenecks. The suite follows line 5."""
    cases = greedy_cases()
    better, worse = sum(text < line for line, text, _ in cases), sum(text > line for line, text, _ in cases)
    return better + worse == 0, (
        f"the numbers of clients at gamma* differ in {better + worse} of {len(cases)} cases: the text is better in "
        f"{better}, line 5 in {worse}"
    )


@claim("algorithm-1/exit", "Algorithm 1, line 2", "The loop ends by its guard.", fails=Verdict.MISPRINT)
def algorithm_1_exit() -> Decision:
    """The guard's sum of lambda* never changes in the loop, so only an empty candidate set can end it."""
    empty = sum(stuck for _, _, stuck in greedy_cases())
    text = f"{empty} of {len(greedy_cases())} random cases reach an empty candidate set, whose argmax is not defined"
    return empty == 0, text


@claim("p2/replaced", "IV-B", "P2 does not scale, so it is replaced by two subproblems.")
def p2_exact(checkout: Path) -> Decision:
    """On one core. O(2^(MN)) is the cost of enumeration, not of the problem. With 24 blocks the solver can end with a
    gap between value and bound, which it reports."""
    if not (checkout / TIMINGS).is_file():
        raise MissingDataError("python -m tests.benchmarks.bench_allocation")
    asked = {"solver": "exact", "num_clients": N, "num_blocks": 12, "total": None}
    seconds = next(row["cpu_s"] for row in read_json(checkout / TIMINGS)["scaling"] if asked.items() <= row.items())
    return False, f"the exact solver proves the least Lambda of {N} clients and 12 blocks in {seconds:.2f} s"


# --- the front -------------------------------------------------------------------------------------------


@functools.cache
def front_curve(fleets: int = FLEETS) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ten VRAM ratios from 0.5 to 0.95, and the lowest Lambda of the paper's method within each, mean over fleets."""
    ratios = np.linspace(0.5, 0.95, 10)
    return ratios, np.mean([[best_within(seed, float(ratio))[0] for ratio in ratios] for seed in range(fleets)], axis=0)


@claim("fig-4a/trend", "Fig. 4(a); V-B3", "With more activated blocks Lambda generally falls.")
def front_trend() -> Decision:
    """OPT-125M, SST-2, 50 clients; 1000 vectors on each of five fleets, one tau for all clients."""
    ratios, curve = front_curve()
    listed = ", ".join(f"{value:.2f} at {ratio:.2f}" for ratio, value in zip(ratios[::3], curve[::3], strict=True))
    return bool((np.diff(curve) <= 1e-9).all()), f"Lambda {listed} of all VRAM"


@claim("fig-4a/shape", "Fig. 4(a); V-B3", "Lambda falls slowly at first, sharply in the middle, then flattens.")
def front_shape() -> Decision:
    """The decline in each third of the VRAM ratios from 0.5 to 0.95, on five fleets. Balanced blocks have
    Lambda = N M^2 / T^2, which is steepest at the smallest T."""
    _, curve = front_curve()
    share = (curve[:-1] - curve[1:]) / (curve[0] - curve[-1])
    early, middle, late = (float(part.sum()) for part in np.split(share, 3))
    return early < middle and late < middle, (
        f"{early:.0%} of the decline in the first third of the VRAM range, {middle:.0%} in the second, {late:.0%} in "
        "the last"
    )


@claim("fig-4a/scenarios", "Fig. 4(a); V-B4", "SC1, SC2 and SC3 are points of the method's Pareto front.")
def scenarios(fleets: int = 1000) -> Decision:
    """The method gives every block gamma or gamma + 1 clients, with gamma = floor(T / M). SC2 needs more VRAM than SC1
    at the same Lambda, and SC3 has a higher Lambda than SC2 at the same VRAM: neither can lie on a Pareto front."""
    drawn = [Fleet.uniform("opt-125m", N, seed=seed) for seed in range(fleets)]
    allowed = dict.fromkeys(PAPER_SCENARIOS, 0)
    for fleet, (name, asked) in itertools.product(drawn, PAPER_SCENARIOS.items()):
        least, most = (total_at_most(asked.vram_ratio + slack, fleet) for slack in (-0.005, 0.005))
        low, high = N / (most // fleet.num_blocks + 1) ** 2, N / (least // fleet.num_blocks) ** 2
        allowed[name] += low <= asked.bias_lambda + 0.005 and asked.bias_lambda - 0.005 <= high
    fleet, sc3 = drawn[0], PAPER_SCENARIOS["SC3"]
    total = fleet.total_at_ratio(sc3.vram_ratio)
    built = solve_scenario(Problem(fleet.budget_N, fleet.num_blocks, total), sc3.bias_lambda)
    listed = ", ".join(f"{count} allow {name}" for name, count in allowed.items())
    return (
        all(count >= fleets / 20 for count in allowed.values()),
        f"of {fleets} fleets drawn as stated, {listed}",
        f"All three can be constructed. With {total} blocks a constructed SC3 has Lambda {built.value:.3f}, a balanced "
        f"allocation {solve(fleet, total=total).value:.3f}.",
    )
