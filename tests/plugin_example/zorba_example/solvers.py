"""A solver: the decorator registers it, and the entry point has it imported where the package is installed."""

from zorba_core.allocation import Allocation, solve, solver


@solver("dice", help="moves some blocks of the balanced allocation at random")
def dice(problem, options):
    A_MN, rng = solve(problem).allocation.A_MN.copy(), options.rng
    for client in rng.permutation(problem.num_clients)[: problem.num_clients // 2]:
        held, free = A_MN[:, client].nonzero()[0], (~A_MN[:, client]).nonzero()[0]
        if len(free):
            source, target = rng.choice(held), rng.choice(free)
            if A_MN[source].sum() > problem.min_popularity:
                A_MN[[source, target], client] = False, True
    return Allocation(A_MN)
