"""Exact scalars of all clients and directions by one forward and one backward pass: a simulation of the limit mu -> 0.

    rho[n, q] = sum over the blocks m that n activates of < grad_m F_n(w^_n; xi_n), v_q,m >

is what finite differences tend to as mu goes to 0. A client of the method has no backward pass: it takes Q + 1 forward
passes and sends these numbers with an error, which preflight reports. A simulation of many clients in one process has
one, and then all Q numbers of a client cost about three forward passes, whatever Q is.

A backward pass adds up what all rows want of a weight. To keep clients apart while their rows go through the blocks
together, each layer's input x and the gradient dy of its output are watched: the client's gradient of a linear layer is
dy^T x over the client's own rows. Clients of a *group* go through the blocks together; directions are drawn once for a
*share* of groups, whose gradients are held in one table a block.

Along low-rank directions u z^T no gradient is made: the scalar of a linear layer is sum_p (dy_p u) (x_p z).

Shapes: M blocks, N clients, Q directions, C clients of a share or group, R rows of a group, P positions of these rows,
E examples, D_m parameters of block m, I inputs and O outputs of a layer.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import linear
from transformers.pytorch_utils import Conv1D

from zorba_core.engine.blocks import Blocks, Inactive
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.reference import Estimate
from zorba_core.engine.precision import products_in
from zorba_core.engine.rows import Rows
from zorba_core.errors import InvalidInputError

TABLE_BYTES = 2**29  # of the gradients that are held at once, unless a single client's are more
# Positions that go through the blocks together: more would not make a core faster, and the backward pass keeps them.
_POSITIONS_CPU, _POSITIONS_ELSEWHERE = 1280, 2**16
_LENGTH_RATIO = 0.75  # rows at least so long beside the longest go together, padded

Layers = list[tuple[nn.Module, dict[str, int]]]  # of a block: where each parameter stands in the block's vector
Own = Sequence[
    tuple[int, slice]
]  # the clients of a group that activate a block, by place in the share; their positions


@torch.no_grad()
def estimate_exact(
    network: Blocks,
    batches_N: Sequence[Rows],
    A_MN: np.ndarray,
    seeds_Q: Sequence[int],
    directions: Directions,
    *,
    mu: float | None = None,
    inactive: Inactive = "frozen",
) -> Estimate:
    """rho[n, q] of every client and direction. ``mu`` plays no part and is taken for the sake of one interface; the
    network's weights are not written to.

    Raises:
        InvalidInputError: a block has a layer whose gradient is not known here.
    """
    A_MN = np.asarray(A_MN, dtype=bool)
    num_clients = A_MN.shape[1]
    loss_N, rho_NQ = np.zeros(num_clients), np.zeros((num_clients, len(seeds_Q)))
    if inactive == "dropped":  # makes the block without weights now: later it would be a copy of a watched one
        network.run_block_without_weights(0, network.embed(batches_N[0].token_ids_RL[:1]))
    layers_M = _layers(network)
    low_rank = directions.kind.low_rank
    for share in _shares(network, batches_N, tables=not low_rank):
        clients = list(itertools.chain(*share))
        sums = (_LowRankScalars if low_rank else _Gradients)(network, A_MN[:, clients], seeds_Q, directions)
        for group in share:
            batches_C, place = [batches_N[n] for n in group], clients.index(group[0])
            loss_N[group] = _backward(network, layers_M, batches_C, A_MN[:, group], inactive, sums, place)
        rho_NQ[clients] = sums.scalars()
    return Estimate(rho_NQ, loss_N, forward_passes=num_clients, backward_passes=num_clients)


class _Gradients:
    """The gradients of a share's clients, block by block, and in the end their scalars."""

    def __init__(self, network: Blocks, active_MC: np.ndarray, seeds_Q: Sequence[int], directions: Directions) -> None:
        self._active_MC, self._seeds_Q, self._directions = active_MC, seeds_Q, directions
        count = active_MC.shape[1]
        self._table_MCD = [network.block_weights(m).new_zeros(count, size) for m, size in enumerate(network.sizes_M)]

    def add(self, block: int, start: int, left_PA: Tensor, right_PB: Tensor, own: Own) -> None:
        """The gradient of the parameter that starts there is left^T right over a client's positions."""
        shape = left_PA.shape[1], right_PB.shape[1]
        for c, positions in own:
            gradient_AB = self._table_MCD[block][c, start : start + shape[0] * shape[1]].view(shape)
            gradient_AB.addmm_(left_PA[positions].t(), right_PB[positions])

    def scalars(self) -> np.ndarray:
        """rho of the share's clients and all directions: (C, Q), float64."""
        total_CQ = np.zeros((self._active_MC.shape[1], len(self._seeds_Q)))
        for m, table_CD in enumerate(self._table_MCD):
            if self._active_MC[m].any():
                total_CQ += self._directions.scalars(table_CD, self._seeds_Q, m).cpu().numpy()
        return total_CQ


class _LowRankScalars:
    """The scalars of a share's clients along low-rank directions, without their gradients."""

    def __init__(self, network: Blocks, active_MC: np.ndarray, seeds_Q: Sequence[int], directions: Directions) -> None:
        shape = active_MC.shape[1], len(seeds_Q)
        self._total_CQ = torch.zeros(shape, dtype=torch.float64, device=network.device)
        # Blocks come one by one: the factors of one are enough.
        self._factors_of = functools.lru_cache(1)(
            lambda block: {factors.part.start: factors for factors in directions.factors(seeds_Q, block)}
        )

    def add(self, block: int, start: int, left_PA: Tensor, right_PB: Tensor, own: Own) -> None:
        _, u_QA, z_QB = self._factors_of(block)[start]
        for c, positions in own:
            product_PQ = linear(left_PA[positions], u_QA).mul_(linear(right_PB[positions], z_QB))
            self._total_CQ[c] += product_PQ.sum(0, dtype=torch.float64)

    def scalars(self) -> np.ndarray:
        return self._total_CQ.cpu().numpy()


def _shares(network: Blocks, batches_N: Sequence[Rows], *, tables: bool) -> list[list[list[int]]]:
    """The clients, those with the longest rows first, in shares of groups. ``tables``: each client of a share has one
    for each block."""
    # Clients of a share.
    most = max(1, TABLE_BYTES // (sum(network.sizes_M) * network.dtype.itemsize)) if tables else len(batches_N)
    positions = _POSITIONS_CPU if network.device.type == "cpu" else _POSITIONS_ELSEWHERE
    shares: list[list[list[int]]] = []
    longest = group_rows = 0
    for n in sorted(range(len(batches_N)), key=lambda n: -batches_N[n].token_ids_RL.shape[1]):
        rows, length = batches_N[n].token_ids_RL.shape
        if not shares or sum(map(len, shares[-1])) == most:
            shares.append([])
        fits = (group_rows + rows) * longest <= positions and length >= _LENGTH_RATIO * longest
        if not shares[-1] or not fits:
            shares[-1].append([])
            longest, group_rows = length, 0
        shares[-1][-1].append(n)
        group_rows += rows
    return shares


def _backward(
    network: Blocks,
    layers_M: list[Layers],
    batches_C: Sequence[Rows],
    A_MC: np.ndarray,
    inactive: Inactive,
    sums: _Gradients | _LowRankScalars,
    place: int,
) -> np.ndarray:
    """F_n of a group, (C,), float64; ``sums`` gets the gradients of each layer. The group's first client stands at
    ``place`` of the share."""
    rows, clients = batches_C[0].joined(batches_C, network.device), np.arange(len(batches_C))
    client_R = np.repeat(clients, [len(batch.token_ids_RL) for batch in batches_C])
    client_E = np.repeat(clients, [len(batch) for batch in batches_C])
    share_E = 1 / np.array([batch.weights.sum() for batch in batches_C])[client_E]
    active_M = np.flatnonzero(A_MC.any(axis=1)).tolist()
    first = active_M[0] if active_M else network.num_blocks  # nothing is kept of the blocks before it

    def add(block: int, layer: nn.Module, starts: dict[str, int], x: Tensor, dy: Tensor) -> None:
        """Hand over the gradients of a layer's parameters, for the clients that activate its block."""
        x_PI, dy_PO = (part.flatten(0, -2).to(layer.weight.dtype) for part in (x, dy))
        end_C = np.searchsorted(client_R, clients, side="right") * (len(x_PI) // len(client_R))
        start_C = [0, *end_C[:-1]]
        own = [(place + c, slice(start_C[c], end_C[c])) for c in np.flatnonzero(A_MC[block])]
        for name, start in starts.items():
            if name == "weight" and isinstance(layer, nn.Linear | Conv1D):
                left, right, spans = *((x_PI, dy_PO) if isinstance(layer, Conv1D) else (dy_PO, x_PI)), own
            else:  # a vector is a matrix of one row
                wanted_PO = dy_PO * _slope(layer, x_PI) if name == "weight" else dy_PO
                right = torch.stack([wanted_PO[positions].sum(0) for _, positions in own])
                left, spans = right.new_ones(len(own), 1), [(c, slice(i, i + 1)) for i, (c, _) in enumerate(own)]
            sums.add(block, start, left, right, spans)

    def watch(block: int, starts: dict[str, int], layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        if output.requires_grad:
            x = inputs[0].detach()
            output.register_hook(lambda dy: add(block, layer, starts, x, dy))

    with contextlib.ExitStack() as hooks:
        for m in active_M:
            for layer, starts in layers_M[m]:
                hooks.callback(layer.register_forward_hook(partial(watch, m, starts)).remove)
        hidden = network.embed(rows.token_ids_RL)
        for m in range(first):
            hidden = _through(network, m, hidden, A_MC[m, client_R], inactive)
        entering = hidden.detach().requires_grad_(bool(active_M))
        with torch.enable_grad():
            hidden = entering
            for m in range(first, network.num_blocks):
                hidden = _through(network, m, hidden, A_MC[m, client_R], inactive)
            loss_E = rows.losses(network, rows.read(hidden)) * torch.from_numpy(share_E).to(network.device)
        if active_M:
            # After autocast the backward pass follows what the forward pass cast.
            with products_in("highest" if network.precision == "bf16" else network.precision, network.device):
                torch.autograd.grad(loss_E, entering, torch.ones_like(loss_E))
    return np.bincount(client_E, loss_E.detach().cpu().numpy(), minlength=len(clients))


def _through(network: Blocks, block: int, hidden_RLH: Tensor, active_R: np.ndarray, inactive: Inactive) -> Tensor:
    """All rows through a block; with ``dropped``, those of clients that do not activate it without its weights."""
    if inactive == "frozen" or active_R.all():
        return network.run_block(block, hidden_RLH)
    own, without = network.run_block(block, hidden_RLH), network.run_block_without_weights(block, hidden_RLH)
    return torch.where(torch.from_numpy(active_R)[:, None, None].to(own.device), own, without)


def _layers(network: Blocks) -> list[Layers]:
    """Of each block the modules that have trained parameters of their own.

    Raises:
        InvalidInputError: one is neither a linear layer nor a norm.
    """
    layers_M: list[Layers] = []
    for m in range(network.num_blocks):
        parameters = list(network.block_parameters(m).values())
        starts = itertools.accumulate((part.numel() for part in parameters), initial=0)
        start_by_id = dict(zip(map(id, parameters), starts, strict=False))
        layers_M.append([])
        for layer in network.block_module(m).modules():
            own = {name: id(parameter) for name, parameter in layer.named_parameters(recurse=False)}
            trained = {name: start_by_id[key] for name, key in own.items() if key in start_by_id}
            norm = "Norm" in type(layer).__name__ and all(part.ndim == 1 for part in layer.parameters(recurse=False))
            if trained and not (norm or isinstance(layer, nn.Linear | Conv1D)):
                raise InvalidInputError(
                    f"estimator exact knows linear layers and norms, and block {m} has a {type(layer).__name__}; "
                    "use estimator cohort"
                )
            layers_M[m] += [(layer, trained)] if trained else []
    return layers_M


def _slope(norm: nn.Module, x_PI: Tensor) -> Tensor:
    """How fast each number that the norm returns grows with its weight, (P, I): a norm is linear in its weights."""
    parts = dict(norm.named_parameters(recurse=False))
    zero_I, one_I = torch.zeros_like(parts["weight"]), torch.ones_like(parts["weight"])
    without_PI, with_PI = (functional_call(norm, {**parts, "weight": weight}, (x_PI,)) for weight in (zero_I, one_I))
    return with_PI.sub_(without_PI)
