"""Exact scalars of all clients and directions by one forward and one backward pass: a simulation of the limit mu -> 0.

    rho[n, q] = sum over the blocks m that n activates of < grad_m F_n(w^_n; xi_n), v_q,m >

is what finite differences tend to as mu goes to 0. A client of the method has no backward pass: it takes Q + 1 forward
passes and sends these numbers with an error. A simulation of many clients in one process has one, and then all Q
numbers of a client cost about three forward passes, whatever Q is. Preflight reports how far the finite differences of
a run's mu are from these scalars.

A backward pass adds up what all rows want of a weight. To keep clients apart while their rows go through the blocks
together, each layer's input x and the gradient dy of its output are watched: the client's gradient of a linear layer is
dy^T x over the client's own rows. Clients of a *group* go through the blocks together; directions are drawn once for a
*share* of groups, whose gradients are held in one table a block.

Along low-rank directions u z^T no gradient is made: the scalar of a linear layer is sum_p (dy_p u) (x_p z).

Shapes: M blocks, N clients, Q directions, C clients of a share or group, R rows of a group, P positions of these rows,
D_m parameters of block m, I inputs and O outputs of a layer.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from transformers.pytorch_utils import Conv1D

from zorba_core.engine.blocks import Blocks, Inactive
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.reference import Estimate
from zorba_core.engine.precision import products_in
from zorba_core.engine.products import linear, put_product
from zorba_core.engine.rows import Rows

TABLE_BYTES = 2**29  # of the gradients that are held at once, unless a single client's are more
# Positions that go through the blocks together: more would not make a core faster, and the backward pass keeps them.
_POSITIONS_CPU, _POSITIONS_ELSEWHERE = 1280, 2**16
_LENGTH_RATIO = 0.75  # rows at least so long beside the longest go together, padded

Starts = Mapping[str, int]  # where each of a layer's parameters stands in its block's vector
Layers = list[tuple[nn.Module, Starts]]  # of a block


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
    network's weights are not written to."""
    A_MN = np.asarray(A_MN, dtype=bool)
    num_clients = A_MN.shape[1]
    loss_N, rho_NQ = np.zeros(num_clients), np.zeros((num_clients, len(seeds_Q)))
    if inactive == "dropped":  # makes the block without weights now: later it would be a copy of a watched one
        network.run_block_without_weights(network.embed(batches_N[0].token_ids_RL[:1]))
    layers_M = _layers(network)
    at_once = directions.kind.low_rank and layers_M is not None
    for share in _shares(network, batches_N, together=layers_M is not None, tables=not at_once):
        clients = list(itertools.chain(*share))
        active_MC = A_MN[:, clients]
        watch = (_ScalarsAtOnce if at_once else _Gradients)(network, active_MC, seeds_Q, directions)
        for group in share:
            watch.begin(clients.index(group[0]))
            batches_C, A_MC = [batches_N[n] for n in group], A_MN[:, group]
            loss_N[group] = _backward(network, layers_M, batches_C, A_MC, inactive, watch)
        rho_NQ[clients] = watch.scalars()
    return Estimate(rho_NQ, loss_N, forward_passes=num_clients, backward_passes=num_clients)


Own = Sequence[tuple[int, slice]]  # clients of a group that activate the block, and their positions


class _Gradients:
    """The gradients of a share's clients, block by block, and in the end their scalars."""

    def __init__(self, network: Blocks, active_MC: np.ndarray, seeds_Q: Sequence[int], directions: Directions) -> None:
        self.dtype = network.dtype
        self._active_MC, self._seeds_Q, self._directions = active_MC, seeds_Q, directions
        count = active_MC.shape[1]
        self._table_MCD = [network.block_weights(m).new_zeros(count, size) for m, size in enumerate(network.sizes_M)]

    def begin(self, first: int) -> None:
        """The next group's clients stand in the share from ``first`` on."""
        self._first = first

    def add_matrix(self, block: int, start: int, left_PA: Tensor, right_PB: Tensor, own: Own) -> None:
        """The gradient of a parameter is left^T right over a client's positions."""
        size = left_PA.shape[1] * right_PB.shape[1]
        for c, positions in own:
            gradient = self._table_MCD[block][self._first + c, start : start + size].view(left_PA.shape[1], -1)
            put_product(gradient, left_PA[positions], right_PB[positions])

    def add_vector(self, block: int, start: int, wanted_PO: Tensor, own: Own) -> None:
        """The gradient of a parameter is the sum over a client's positions."""
        for c, positions in own:
            self._table_MCD[block][self._first + c, start : start + wanted_PO.shape[1]] += wanted_PO[positions].sum(0)

    def add_whole(self, block: int, gradient_D: Tensor) -> None:
        """The gradient of a block, of a group of one client."""
        self._table_MCD[block][self._first] = gradient_D

    def scalars(self) -> np.ndarray:
        """rho of the share's clients and all directions: (C, Q), float64."""
        total_CQ = np.zeros((self._active_MC.shape[1], len(self._seeds_Q)))
        for m, table_CD in enumerate(self._table_MCD):
            if self._active_MC[m].any():
                total_CQ += self._directions.scalars(table_CD, self._seeds_Q, m).cpu().numpy()
        return total_CQ


class _ScalarsAtOnce:
    """The scalars of a share's clients along low-rank directions, without their gradients."""

    def __init__(self, network: Blocks, active_MC: np.ndarray, seeds_Q: Sequence[int], directions: Directions) -> None:
        self.dtype = network.dtype
        shape = active_MC.shape[1], len(seeds_Q)
        self._total_CQ = torch.zeros(shape, dtype=torch.float64, device=network.device)
        self._factors_of = functools.lru_cache(1)(partial(directions.factors, seeds_Q))  # blocks come one by one

    def begin(self, first: int) -> None:
        self._first = first

    def add_matrix(self, block: int, start: int, left_PA: Tensor, right_PB: Tensor, own: Own) -> None:
        _, u_QA, z_QB = self._factors_of(block)[start]
        if sum(positions.stop - positions.start for _, positions in own) < len(left_PA):
            left_PA, right_PB = (torch.cat([side[positions] for _, positions in own]) for side in (left_PA, right_PB))
        product_PQ = linear(left_PA, u_QA).mul_(linear(right_PB, z_QB))
        parts = product_PQ.split([positions.stop - positions.start for _, positions in own])
        for (c, _), part_PQ in zip(own, parts, strict=True):
            self._total_CQ[self._first + c] += part_PQ.sum(0, dtype=torch.float64)

    def add_vector(self, block: int, start: int, wanted_PO: Tensor, own: Own) -> None:
        _, _, z_QO = self._factors_of(block)[start]
        gradient_CO = torch.stack([wanted_PO[positions].sum(0) for _, positions in own])
        for (c, _), rho_Q in zip(own, linear(gradient_CO, z_QO), strict=True):
            self._total_CQ[self._first + c] += rho_Q

    def scalars(self) -> np.ndarray:
        return self._total_CQ.cpu().numpy()


def _shares(network: Blocks, batches_N: Sequence[Rows], *, together: bool, tables: bool) -> list[list[list[int]]]:
    """The clients, those with the longest rows first, in shares of groups. ``together``: of several clients each;
    ``tables``: each client of a share has a table."""
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
        if not shares[-1] or not fits or not together:
            shares[-1].append([])
            longest, group_rows = length, 0
        shares[-1][-1].append(n)
        group_rows += rows
    return shares


def _backward(
    network: Blocks,
    layers_M: Sequence[Layers] | None,
    batches_C: Sequence[Rows],
    A_MC: np.ndarray,
    inactive: Inactive,
    watch: _Gradients | _ScalarsAtOnce,
) -> np.ndarray:
    """F_n of a group, (C,), float64. ``watch`` gets each layer's input and the gradient of its output.

    Args:
        layers_M: the layers of each block; None where autograd is to give the gradient of a single client.
    """
    rows, blocks = batches_C[0].joined(batches_C, network.device), range(network.num_blocks)
    rows_C, examples_C = [len(batch.token_ids_RL) for batch in batches_C], [len(batch) for batch in batches_C]
    active_MR = torch.from_numpy(np.repeat(A_MC, rows_C, axis=1)).to(network.device)
    share_E = np.repeat([1 / batch.weights.sum() for batch in batches_C], examples_C)
    first = int(A_MC.any(axis=1).argmax()) if A_MC.any() else network.num_blocks  # nothing is kept of blocks before it
    parameters_M = [
        list(network.block_parameters(m).values()) if layers_M is None and A_MC[m, 0] else [] for m in blocks
    ]
    with contextlib.ExitStack() as stack:
        for m in blocks[first:]:
            if layers_M is not None and A_MC[m].any():
                stack.enter_context(_watched(layers_M[m], partial(_add_layer, watch, m, rows_C, A_MC[m])))
            for parameter in parameters_M[m]:
                stack.callback(parameter.requires_grad_, False)
                parameter.requires_grad_(True)
        entering = hidden = network.embed(rows.token_ids_RL)
        for m in blocks:
            if m == first:
                entering = hidden = hidden.detach().requires_grad_(True)
            with torch.set_grad_enabled(m >= first):
                hidden = _through(network, m, hidden, active_MR[m], inactive)
        with torch.set_grad_enabled(first < network.num_blocks):
            loss_E = rows.losses(network, rows.read(hidden)) * torch.from_numpy(share_E).to(network.device)
            loss = loss_E.sum()
        if loss.requires_grad:
            with products_in("highest" if network.precision == "bf16" else network.precision, network.device):
                wanted = [entering, *itertools.chain(*parameters_M[first:])]
                gradients = iter(torch.autograd.grad(loss, wanted, materialize_grads=True)[1:])
            for m in blocks[first:]:
                if parameters_M[m]:
                    watch.add_whole(m, torch.cat([next(gradients).reshape(-1) for _ in parameters_M[m]]))
    return np.bincount(
        np.repeat(np.arange(len(batches_C)), examples_C), loss_E.detach().cpu().numpy(), minlength=len(batches_C)
    )


def _through(network: Blocks, block: int, hidden_RLH: Tensor, active_R: Tensor, inactive: Inactive) -> Tensor:
    """All rows through a block; with ``dropped``, those of clients that do not activate it without its weights."""
    if inactive == "frozen" or active_R.all():
        return network.run_block(block, hidden_RLH)
    without_RLH = network.run_block_without_weights(hidden_RLH)
    return torch.where(active_R[:, None, None], network.run_block(block, hidden_RLH), without_RLH)


def _layers(network: Blocks) -> list[Layers] | None:
    """Of each block the modules that have trained parameters of their own; None if one is no linear layer or norm."""
    layers_M: list[Layers] = []
    for m in range(network.num_blocks):
        start, start_by_parameter = 0, {}
        for parameter in network.block_parameters(m).values():
            start_by_parameter[id(parameter)] = start
            start += parameter.numel()
        layers_M.append([])
        for module in network.block_module(m).modules():
            own = {name: id(parameter) for name, parameter in module.named_parameters(recurse=False)}
            starts = {name: start_by_parameter[key] for name, key in own.items() if key in start_by_parameter}
            if starts:
                layers_M[m].append((module, starts))
    return layers_M if all(_is_known(layer) for layers in layers_M for layer, _ in layers) else None


def _is_known(layer: nn.Module) -> bool:
    norm = "Norm" in type(layer).__name__ and all(part.ndim == 1 for part in layer.parameters(recurse=False))
    return norm or isinstance(layer, nn.Linear | Conv1D)


@contextlib.contextmanager
def _watched(layers: Layers, add: Callable[[nn.Module, Starts, Tensor, Tensor], None]) -> Iterator[None]:
    """Context manager: ``add(layer, starts, x, dy)`` for each pass through a layer, once the gradient dy of its output
    is known."""

    def watch(starts: Starts, layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if output.requires_grad:
            x = inputs[0].detach()
            output.register_hook(lambda dy: add(layer, starts, x, dy))

    with contextlib.ExitStack() as stack:
        for layer, starts in layers:
            stack.callback(layer.register_forward_hook(partial(watch, starts)).remove)
        yield


def _add_layer(
    watch: _Gradients | _ScalarsAtOnce,
    block: int,
    rows_C: Sequence[int],
    active_C: np.ndarray,
    layer: nn.Module,
    starts: Starts,
    x: Tensor,
    dy: Tensor,
) -> None:
    """Hand over the gradients of a layer's parameters, for the clients that activate its block."""
    x_PI, dy_PO = (part.flatten(0, -2).to(watch.dtype) for part in (x, dy))
    positions, stops = len(x_PI) // sum(rows_C), np.cumsum(rows_C)  # of a row
    own = [
        (c, slice((stop - rows) * positions, stop * positions))
        for c, (rows, stop) in enumerate(zip(rows_C, stops.tolist(), strict=True))
        if active_C[c]
    ]
    if not own:
        return
    linear_layer = isinstance(layer, nn.Linear | Conv1D)
    for name, start in starts.items():
        if name != "weight":
            watch.add_vector(block, start, dy_PO, own)
        elif linear_layer:
            watch.add_matrix(block, start, *((x_PI, dy_PO) if isinstance(layer, Conv1D) else (dy_PO, x_PI)), own)
        else:
            watch.add_vector(block, start, dy_PO * _slope(layer, x_PI), own)


def _slope(norm: nn.Module, x_PI: Tensor) -> Tensor:
    """How fast each number that the norm returns grows with its weight, (P, I): a norm is linear in its weights."""
    parts = dict(norm.named_parameters(recurse=False))
    zero_I, one_I = torch.zeros_like(parts["weight"]), torch.ones_like(parts["weight"])
    without_PI, with_PI = (functional_call(norm, {**parts, "weight": weight}, (x_PI,)) for weight in (zero_I, one_I))
    return with_PI.sub_(without_PI)
