"""The experiments, each written down before its runs: cells, arms, seeds, target and margin.

Every experiment has a placebo: an arm that repeats another in every quantity of the theory (Lambda, V, E, D, N_eff, T),
with trials for its own rate. The difference between an arm and its placebo is the effect of chance and of the choice of
a rate; no smaller difference is a finding. The seed permutes the blocks, so no result depends on which blocks are
scarce; only the experiment ``blocks`` fixes them.

Shapes: M blocks, N clients.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from notebooks.reproduction.sweep import Arm, Cell, Plan
from zorba_core.allocation import Allocation, Problem, solve
from zorba_core.allocation.scenarios import PAPER_SCENARIOS, solve_scenario
from zorba_core.errors import InvalidInputError
from zorba_core.fleet import Fleet

PROFILES = ("cpu", "gpu")
SMALL, REAL = "opt-mini", "smollm2-135m"
BLOCKS_OF = {SMALL: 12, REAL: 30}
# For the real model. In a pilot this prompt reached in ten rounds the accuracy that "It was" reached in 40.
PROMPT = "Review: {text} Sentiment:"
# Settings that the arms of a cell share. Scalars are exact; a method has its own number of directions.
_SHARED = {"num_seeds": 4096, "mu": 1e-3}
_SMALL = {**_SHARED, "direction": "rademacher", "batch_size": 2, "seq_len": 64, "eval_every": 5, "eval_rows": 400}
_REAL = {
    **_SHARED,
    "direction": "low-rank",
    "precision": "bf16",
    "batch_size": 4,
    "seq_len": 32,
    "eval_every": 5,
    "eval_rows": 96,
}
# The paper's clients and rows.
_GPU = {
    **_SHARED,
    "direction": "low-rank",
    "precision": "bf16",
    "batch_size": 8,
    "seq_len": 128,
    "device": "cuda",
    "eval_every": 5,
    "eval_rows": 800,
}

Matrix = Callable[[int], Allocation]


def permuted(make: Callable[[], Allocation], salt: int = 0) -> Matrix:
    """The allocation with its blocks in an order that the seed decides. No measure of an allocation changes."""

    def by_seed(seed: int) -> Allocation:
        A_MN = make().A_MN
        return Allocation(A_MN[np.random.default_rng([seed, salt]).permutation(len(A_MN))])

    return by_seed


@functools.cache
def balanced(M: int, N: int, blocks: int) -> Allocation:
    """Every client activates ``blocks`` blocks, every block has nearly the same number of clients."""
    return Allocation(solve(Problem(np.full(N, blocks), M)).allocation.A_MN)


@functools.cache
def scenario(name: str, base: str = "opt-125m") -> Allocation:
    """The matrix of SC1, SC2 or SC3: 50 clients of draw 0, the blocks of ``base``, the printed ratio and Lambda."""
    if base == REAL:
        from zorba_core.runs.load import read_spec

        base = read_spec(base)
    fleet, asked = Fleet.uniform(base, 50, seed=0), PAPER_SCENARIOS[name]
    problem = Problem(fleet.budget_N, fleet.num_blocks, fleet.total_at_ratio(asked.vram_ratio), "eq")
    return Allocation(solve_scenario(problem, asked.bias_lambda, time_limit=60.0).allocation.A_MN)


def only(M: int, N: int, blocks: Sequence[int]) -> Matrix:
    """Every client activates the same blocks; the others are never trained. The same for every seed."""
    return lambda seed: Allocation.from_blocks([list(blocks)] * N, M)


@functools.cache
def dealt(popularity_M: tuple[int, ...], N: int, piled: bool = False) -> Allocation:
    """Give block m to ``popularity_M[m]`` clients: to those with the fewest blocks so far. ``piled``: all blocks that
    are scarcer than the mean go to the same first clients."""
    A_MN = np.zeros((len(popularity_M), N), bool)
    for m in np.argsort(popularity_M, kind="stable"):
        count = popularity_M[m]
        on_first = piled and count < np.mean(popularity_M)
        held_N = np.arange(N) if on_first else A_MN.sum(axis=0)
        A_MN[m, np.argsort(held_N, kind="stable")[:count]] = True
    return Allocation(A_MN)


def plans(profile: str = "cpu") -> dict[str, Plan]:
    """Every experiment by name, in the order of running.

    Raises:
        InvalidInputError: an unknown profile.
    """
    if profile not in PROFILES:
        raise InvalidInputError(f"profile is {profile!r}; choose one of {', '.join(PROFILES)}")
    made = [plan(profile) for plan in (_lambda, _tables, _cases, _blocks, _setting)]
    return {plan.name: plan for plan in made}


def _tables(profile: str) -> Plan:
    """ZorBA, its placebo and the methods it is compared with, each at its own best rate, at one horizon.

    Not in the CPU profile: FedZO on the real model, AG-News and SNLI.
    """
    if profile == "gpu":
        # The paper's totals: 300, 200 and 450 of 600 blocks.
        shares = {"sst2": 15, "ag-news": 10, "snli": 22}
        cells = [
            Cell(
                REAL,
                task,
                50,
                {**_GPU, "rounds": 100},
                _methods(REAL, 50, k, fedzo=True),
                tuple(range(3)),
                prompt=PROMPT if task == "sst2" else "",
            )
            for task, k in shares.items()
        ]
    else:
        cells = [
            Cell(REAL, "sst2", 8, {**_REAL, "rounds": 20}, _methods(REAL, 8, 8), tuple(range(3)), (1000,), PROMPT),
            Cell(SMALL, "sst2", 20, {**_SMALL, "rounds": 40}, _methods(SMALL, 20, 6, fedzo=True), tuple(range(5))),
        ]
    question = "How many rounds, forward passes, bytes and how much VRAM does each method need?"
    return Plan("tables" if profile == "cpu" else "tables-gpu", question, tuple(cells))


def _methods(base: str, N: int, blocks: int, *, fedzo: bool = False) -> tuple[Arm, ...]:
    """ZorBA with ``blocks`` blocks of each client, and the others with all."""
    M = BLOCKS_OF[base]
    make = functools.partial(balanced, M, N, blocks)
    lr = {"zorba": 2e-2, "fedit": 2e-1, "decomfl": 6e-3, "decomfl-10": 3e-2, "fedzo": 1e-2}
    if base == REAL:
        lr = {"zorba": 4e-4, "fedit": 4e-3, "decomfl": 2e-4, "decomfl-10": 4e-4, "fedzo": 3e-4}
    arms = [
        Arm("zorba", permuted(make), lr=lr["zorba"]),
        Arm("zorba again", permuted(make, salt=1), lr=lr["zorba"], placebo_of="zorba"),
        Arm("fedit", settings={"method": "fedit"}, lr=lr["fedit"]),
        Arm("decomfl", settings={"method": "decomfl"}, lr=lr["decomfl"]),
    ]
    if fedzo:  # both methods that cost most on the real model
        arms.append(Arm("decomfl-10", settings={"method": "decomfl", "directions": 10}, lr=lr["decomfl-10"]))
        arms.append(Arm("fedzo", settings={"method": "fedzo"}, lr=lr["fedzo"]))
    return tuple(arms)


# Popularities of 12 blocks and 20 clients that sum to 80: at this total the amount of VRAM explains nothing.
_POPULARITIES = {
    "starved-1": (1, *[7] * 9, 8, 8),
    "starved-3": (1, 1, 1, 8, 8, 8, 8, *[9] * 5),
    "starved-6": (*[1] * 6, 12, 12, 12, 12, 13, 13),
    "twos": (2, 2, 2, 2, *[9] * 8),
    "hub": (20, *[5] * 6, *[6] * 5),
    "hub-2": (20, 20, *[4] * 10),
    "hub-3": (20, 20, 20, *[2] * 7, 3, 3),
    "linear": (2, 3, 4, 5, 6, 6, 7, 7, 8, 9, 11, 12),
}
PILED = ("twos", "hub", "hub-2", "hub-3", "linear")
_SCARCE = {"one scarce": (1, *[20] * 11), "eleven scarce": (20, *[1] * 11)}


def _lambda(profile: str) -> Plan:
    """Does Lambda rank allocations of one total? Sixteen matrices of 80 blocks; some pairs have equal T, V and
    popularities. The arm with all 240 blocks is for Observation 1. Then Proposition 1's second half: two matrices with
    one multiset of least popularities, hence one Lambda. In one of them a single client alone trains one block, in the
    other eleven blocks. That pair runs at the rate of the first series (0.02), whose three seeds left it open; its
    seeds are new.
    """
    N, lr = 20, 2e-2
    usual = functools.partial(balanced, 12, N, 4)
    arms = [
        Arm("balanced", permuted(usual), lr=lr),
        Arm("balanced again", permuted(usual, salt=1), lr=lr, placebo_of="balanced"),
    ]
    for name, c in _POPULARITIES.items():
        arms.append(Arm(name, permuted(functools.partial(dealt, c, N)), lr=lr))
        if name in PILED:
            arms.append(Arm(f"{name} piled", permuted(functools.partial(dealt, c, N, True)), lr=lr))
    arms.append(Arm("exact", permuted(_exact_80), lr=lr))
    arms.append(Arm("all blocks", permuted(functools.partial(balanced, 12, N, 12)), lr=lr))
    one, eleven = (functools.partial(dealt, _SCARCE[name], N, True) for name in ("one scarce", "eleven scarce"))
    scarce = (
        Arm("one scarce", permuted(one), lr=lr),
        Arm("one scarce again", permuted(one, salt=1), lr=lr, placebo_of="one scarce"),
        Arm("eleven scarce", permuted(eleven), lr=lr),
    )
    size = {**_SMALL, "rounds": 30} if profile == "cpu" else {**_GPU, "direction": "rademacher", "rounds": 60}
    cells = (
        Cell(SMALL, "sst2", N, size, scarce, tuple(range(3, 11)), ()),
        Cell(SMALL, "sst2", N, size, tuple(arms), tuple(range(5)), (1000,)),
    )
    question = "Does Lambda rank allocations of one total, and does it tell apart what trains apart?"
    return Plan("lambda" if profile == "cpu" else "lambda-gpu", question, cells)


@functools.cache
def _exact_80() -> Allocation:
    """The least Lambda at 80 blocks for a fleet drawn as in the paper."""
    fleet = Fleet.uniform("opt-125m", 20, seed=0)
    return Allocation(solve(fleet, solver="exact", total=80, total_mode="eq", time_limit=60.0).allocation.A_MN)


def _cases(profile: str) -> Plan:
    """SC1, SC2 and SC3 with the printed ratio and Lambda. A difference of late loss below 0.02 nats, fixed before the
    first run, counts as none. Not in the CPU profile: the real model, for which 50 clients take a GPU.
    """
    base = SMALL if profile == "cpu" else REAL
    blocks_of = "opt-125m" if profile == "cpu" else REAL
    lr = 2e-2 if profile == "cpu" else 4e-4
    arms = [Arm(name, permuted(functools.partial(scenario, name, blocks_of)), lr=lr) for name in PAPER_SCENARIOS]
    arms.append(Arm("SC2 again", permuted(functools.partial(scenario, "SC2", blocks_of), 1), lr=lr, placebo_of="SC2"))
    size = {**_SMALL, "rounds": 30} if profile == "cpu" else {**_GPU, "rounds": 100}
    cell = Cell(base, "sst2", 50, size, tuple(arms), tuple(range(6)), (1000,), prompt=PROMPT if base == REAL else "")
    question = "Is SC1 like SC2, and SC3 slower, beyond the noise of seeds?"
    return Plan("cases" if profile == "cpu" else "cases-gpu", question, (cell,), margin=0.02)


def _blocks(profile: str) -> Plan:
    """Which blocks are worth training? All clients train the same ones: the first, the last, or spread over the depth.
    ``dropped`` reads the paper literally: blocks that a client does not activate are absent from its forward pass. On
    the real model this damages the loss before training; three rounds at one rate show it.
    """
    gpu = profile == "gpu"
    N = 50 if gpu else 8
    size = {**_GPU, "rounds": 60} if gpu else {**_REAL, "rounds": 20}
    arms = _positions(30, 8, N, 4e-4)
    dropped = tuple(
        Arm(how, permuted(functools.partial(balanced, 30, N, 8)), {"inactive": how}, 4e-4)
        for how in ("frozen", "dropped")
    )
    short = {**size, "rounds": 3, "eval_every": 3}
    cells = [
        Cell(REAL, "sst2", N, short, dropped, (0,), (), prompt=PROMPT),
        Cell(REAL, "sst2", N, size, arms, tuple(range(3)), (1000,), prompt=PROMPT),
    ]
    if not gpu:
        usual = permuted(functools.partial(balanced, 12, 20, 4))
        mini = (
            *_positions(12, 4, 20, 2e-2),
            Arm("frozen", usual, lr=2e-2),
            Arm("dropped", usual, {"inactive": "dropped"}, 2e-2),
        )
        cells.append(Cell(SMALL, "sst2", 20, {**_SMALL, "rounds": 30}, mini, tuple(range(5)), (1000,)))
    return Plan("blocks-gpu" if gpu else "blocks", "Which blocks matter, and frozen or dropped?", tuple(cells))


def _positions(M: int, blocks: int, N: int, lr: float) -> tuple[Arm, ...]:
    step = M // blocks
    spread = range(0, step * blocks, step)
    return (
        Arm("first", only(M, N, range(blocks)), lr=lr),
        Arm("last", only(M, N, range(M - blocks, M)), lr=lr),
        Arm("spread", only(M, N, spread), lr=lr),
        Arm("spread again", only(M, N, [m + step // 2 for m in spread]), lr=lr, placebo_of="spread"),
    )


def _setting(profile: str) -> Plan:
    """Does the printed setting learn: directions on the unit sphere, mu = 1e-4, lr = 5e-5? It is compared with
    directions of norm sqrt(d) and the same mu. Scalars are finite differences, since their error matters here (column
    ``difference_error``); ``exact`` repeats an arm with exact scalars.
    """
    printed = {"direction": "unit-sphere", "mu": 1e-4}
    scaled = {"direction": "gaussian", "mu": 1e-4}
    arms = {}
    for base, N, k, lr in ((SMALL, 20, 4, 2e-2), (REAL, 8, 8, 4e-4)):
        usual = permuted(functools.partial(balanced, BLOCKS_OF[base], N, k))
        again = permuted(functools.partial(balanced, BLOCKS_OF[base], N, k), 1)
        arms[base] = (
            Arm("printed", usual, {**printed, "estimator": "cohort"}, 5e-5),
            Arm("norm sqrt(d)", usual, {**scaled, "estimator": "cohort"}, lr),
            Arm("norm sqrt(d), again", again, {**scaled, "estimator": "cohort"}, lr, placebo_of="norm sqrt(d)"),
            Arm("norm sqrt(d), exact", usual, {**scaled, "estimator": "exact"}, lr),
        )
    small, real = {**_SMALL, "rounds": 30}, {**_REAL, "rounds": 4, "eval_every": 4}
    if profile == "gpu":
        real = {**_GPU, "rounds": 60}
    cells = [
        Cell(SMALL, "sst2", 20, small, arms[SMALL], tuple(range(3)), ()),
        Cell(REAL, "sst2", 8, real, arms[REAL], (0,) if profile == "cpu" else tuple(range(3)), (), prompt=PROMPT),
    ]
    if profile == "gpu":
        cells = cells[1:]
    question = "Does the printed setting learn?"
    return Plan("setting" if profile == "cpu" else "setting-gpu", question, tuple(cells))
