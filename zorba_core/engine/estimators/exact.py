"""Exact scalars of all clients and directions by one forward and one backward pass: a simulation of the limit mu -> 0.

    rho[n, q] = sum over the blocks m that n activates of < grad_m F_n(w^_n; xi_n), v_q,m >

is the limit of the finite differences as mu goes to 0. A real client computes no backward pass: it needs Q + 1 forward
passes for these numbers, and its result has an error, which preflight reports. A simulation can use a backward pass, so
that all Q numbers of a client cost about three forward passes, for any Q.

A backward pass sums the gradient over all rows. To separate the clients, hooks read each layer's input x and the
gradient dy of its output: a client's gradient of a linear layer is dy^T x over the client's rows. The clients of a
*group* go through the blocks together. Each direction is drawn once for a *share* of several groups, whose gradients
are in one table a block.

Low-rank directions u z^T need no gradient table: the scalar of a linear layer is u^T (dy^T x) z, or the same without
the gradient in between, sum_p (dy_p u) (x_p z).

Shapes: M blocks, N clients, Q directions, C clients of a share or group, R rows of a group, P positions of these rows,
E examples, D_m parameters of block m, I inputs and O outputs of a layer.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from transformers.pytorch_utils import Conv1D

from zorba_core.engine.blocks import Blocks, Inactive
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.reference import Estimate
from zorba_core.engine.precision import products_in
from zorba_core.engine.rows import Rows
from zorba_core.errors import InvalidInputError

TABLE_BYTES = 2**29  # limit on the gradient tables, unless a single client needs more
# Positions that go through the blocks together. More need more memory for the backward pass and are not faster.
_POSITIONS_CPU, _POSITIONS_ELSEWHERE = 1280, 2**16
_LENGTH_RATIO = 0.75  # least ratio of the lengths of two rows in a group, where the shorter one is padded

# Each network's tables stay from round to round, because allocating new memory takes longer than filling it.
_TABLES: weakref.WeakKeyDictionary[Blocks, list[Tensor]] = weakref.WeakKeyDictionary()

Layers = list[tuple[nn.Module, dict[str, int]]]  # of a block; each parameter's start in the block's vector


@torch.no_grad()
def estimate_exact(
    network: Blocks,
    batches_N: Sequence[Rows],
    A_MN: np.ndarray,
    seeds_Q: Sequence[int] | np.ndarray,
    directions: Directions,
    *,
    mu: float | None = None,
    inactive: Inactive = "frozen",
) -> Estimate:
    """rho[n, q] of every client and direction. ``mu`` is ignored. The network's weights do not change.

    Raises:
        InvalidInputError: a block has a layer that is neither linear nor a norm.
    """
    A_MN = np.asarray(A_MN, dtype=bool)
    num_clients = A_MN.shape[1]
    loss_N, rho_NQ = np.zeros(num_clients), np.zeros((num_clients, len(seeds_Q)))
    if inactive == "dropped":  # the block without weights is a copy, to be made before the blocks have hooks
        network.run_block_without_weights(0, network.embed(batches_N[0].token_ids_RL[:1]))
    layers_M = _layers(network)
    low_rank = directions.kind.low_rank
    for share in _shares(network, batches_N, tables=not low_rank):
        clients = [n for group in share for n in group]
        sums = (_LowRankScalars if low_rank else _Gradients)(network, A_MN[:, clients], seeds_Q, directions)
        for group in share:
            batches_C, place = [batches_N[n] for n in group], clients.index(group[0])
            loss_N[group] = _backward(network, layers_M, batches_C, A_MN[:, group], inactive, sums, place)
        rho_NQ[clients] = sums.scalars()
    return Estimate(rho_NQ, loss_N, forward_passes=num_clients, backward_passes=num_clients)


class _Gradients:
    """The gradients of a share's clients for each block, and then their scalars."""

    def __init__(
        self, network: Blocks, active_MC: np.ndarray, seeds_Q: Sequence[int] | np.ndarray, directions: Directions
    ) -> None:
        self._active_MC, self._seeds_Q, self._directions = active_MC, seeds_Q, directions
        count, held_MCD = active_MC.shape[1], _TABLES.setdefault(network, [])
        if not held_MCD or len(held_MCD[0]) < count:
            held_MCD[:] = [network.block_weights(m).new_empty(count, size) for m, size in enumerate(network.sizes_M)]
        self._table_MCD = [table_CD[:count].zero_() for table_CD in held_MCD]

    def add_matrix(self, block: int, start: int, client: int, left_PA: Tensor, right_PB: Tensor) -> None:
        """Add left^T right to the gradient of the matrix at index ``start`` of a block, for a client of the share."""
        shape = left_PA.shape[1], right_PB.shape[1]
        gradient_AB = self._table_MCD[block][client, start : start + shape[0] * shape[1]].view(shape)
        gradient_AB.addmm_(left_PA.t(), right_PB)

    def add_vector(self, block: int, start: int, client: int, gradient_A: Tensor) -> None:
        """Add to the gradient of the vector at index ``start`` of a block, for a client of the share."""
        self._table_MCD[block][client, start : start + len(gradient_A)].add_(gradient_A)

    def scalars(self) -> np.ndarray:
        """rho of the share's clients: (C, Q), float64."""
        total_CQ = np.zeros((self._active_MC.shape[1], len(self._seeds_Q)))
        for m, table_CD in enumerate(self._table_MCD):
            if self._active_MC[m].any():
                total_CQ += self._directions.scalars(table_CD, self._seeds_Q, m).cpu().numpy()
        return total_CQ


class _LowRankScalars:
    """The scalars of a share's clients along low-rank directions, without their gradients."""

    def __init__(
        self, network: Blocks, active_MC: np.ndarray, seeds_Q: Sequence[int] | np.ndarray, directions: Directions
    ) -> None:
        self._total_CQ = torch.zeros(active_MC.shape[1], len(seeds_Q), dtype=torch.float64, device=network.device)
        # The backward pass goes block by block, so a cache of one block is enough.
        self._factors_of = functools.lru_cache(1)(
            lambda block: {factors.part.start: factors for factors in directions.factors(seeds_Q, block)}
        )

    def add_matrix(self, block: int, start: int, client: int, left_PA: Tensor, right_PB: Tensor) -> None:
        _, u_QA, z_QB = self._factors_of(block)[start]
        (P, A), B, Q = left_PA.shape, right_PB.shape[1], len(u_QA)
        if 2 * A * B * (P + Q) < P * Q * (A + B):  # of a small matrix, the gradient costs less
            product_QX = F.linear(u_QA, right_PB.t() @ left_PA).mul_(z_QB)
        else:
            product_QX = F.linear(u_QA, left_PA).mul_(F.linear(z_QB, right_PB))
        self._total_CQ[client] += product_QX.sum(1, dtype=torch.float64)

    def add_vector(self, block: int, start: int, client: int, gradient_A: Tensor) -> None:
        self._total_CQ[client] += F.linear(gradient_A[None], self._factors_of(block)[start].z_Qn)[0]

    def scalars(self) -> np.ndarray:
        return self._total_CQ.cpu().numpy()


def _shares(network: Blocks, batches_N: Sequence[Rows], *, tables: bool) -> list[list[list[int]]]:
    """The clients in shares of groups, those with the longest rows first. With gradient ``tables``, a share has at most
    as many clients as fit in :data:`TABLE_BYTES`."""
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
    """F_n of a group, (C,), float64. Adds the gradients of each layer to ``sums``. ``place`` is the position of the
    group's first client in the share."""
    rows, clients = batches_C[0].joined(batches_C, network.device), np.arange(len(batches_C))
    rows_C = [len(batch.token_ids_RL) for batch in batches_C]
    client_R, client_E = np.repeat(clients, rows_C), np.repeat(clients, [len(batch) for batch in batches_C])
    share_E = 1 / np.array([batch.weights.sum() for batch in batches_C])[client_E]
    own_M = [np.flatnonzero(active_C).tolist() for active_C in A_MC]
    active_M = [m for m, own in enumerate(own_M) if own]
    first = active_M[0] if active_M else network.num_blocks  # the backward pass ends at this block

    def add(block: int, layer: nn.Module, starts: dict[str, int], x: Tensor, dy: Tensor) -> None:
        """Add the gradients of a layer's parameters for the clients that activate its block."""
        x_PI, dy_PO = (part.flatten(0, -2).to(network.dtype) for part in (x, dy))
        positions_C = [len(x_PI) // len(client_R) * count for count in rows_C]
        x_CPI, dy_CPO = x_PI.split(positions_C), dy_PO.split(positions_C)
        for name, start in starts.items():
            if name == "weight" and isinstance(layer, nn.Linear | Conv1D):
                left_CPA, right_CPB = (x_CPI, dy_CPO) if isinstance(layer, Conv1D) else (dy_CPO, x_CPI)
                for c in own_M[block]:
                    sums.add_matrix(block, start, place + c, left_CPA[c], right_CPB[c])
            else:
                wanted_CPO = (dy_PO * _slope(layer, x_PI)).split(positions_C) if name == "weight" else dy_CPO
                for c in own_M[block]:
                    sums.add_vector(block, start, place + c, wanted_CPO[c].sum(0))

    def watch(block: int, starts: dict[str, int], layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        if output.requires_grad:
            output.register_hook(functools.partial(add, block, layer, starts, inputs[0].detach()))

    with contextlib.ExitStack() as hooks:
        for m in active_M:
            for layer, starts in layers_M[m]:
                hooks.callback(layer.register_forward_hook(functools.partial(watch, m, starts)).remove)
        with torch.enable_grad():
            hidden = network.embed(rows.token_ids_RL)
            for m in range(network.num_blocks):
                if m == first:
                    entering = hidden.requires_grad_()
                hidden = _through(network, m, hidden, A_MC[m, client_R], inactive)
            loss_E = rows.losses(network, rows.read(hidden)) * torch.from_numpy(share_E).to(network.device)
        if active_M:
            # With bf16 the backward pass uses the dtypes of the forward pass, so it needs no autocast.
            with products_in("highest" if network.precision == "bf16" else network.precision, network.device):
                torch.autograd.grad(loss_E, entering, torch.ones_like(loss_E))
    return np.bincount(client_E, loss_E.detach().cpu().numpy(), minlength=len(clients))


def _through(network: Blocks, block: int, hidden_RLH: Tensor, active_R: np.ndarray, inactive: Inactive) -> Tensor:
    """Apply a block to all rows. With ``dropped``, rows of clients that do not activate it use zero weights."""
    if inactive == "frozen" or active_R.all():
        return network.run_block(block, hidden_RLH)
    own, without = network.run_block(block, hidden_RLH), network.run_block_without_weights(block, hidden_RLH)
    return torch.where(torch.from_numpy(active_R)[:, None, None].to(own.device), own, without)


def _layers(network: Blocks) -> list[Layers]:
    """The modules of each block that directly have trained parameters.

    Raises:
        InvalidInputError: a module is neither a linear layer nor a norm.
    """
    layers_M: list[Layers] = []
    for m in range(network.num_blocks):
        trained = set(map(id, network.block_parameters(m).values()))
        layers_M.append([])
        for layer in network.block_module(m).modules():
            own = dict(layer.named_parameters(recurse=False))
            starts = {name: int(part.storage_offset()) for name, part in own.items() if id(part) in trained}
            norm = "Norm" in type(layer).__name__ and all(part.ndim == 1 for part in own.values())
            if starts and not (norm or isinstance(layer, nn.Linear | Conv1D)):
                raise InvalidInputError(
                    f"estimator exact supports linear layers and norms, and block {m} has a {type(layer).__name__}; "
                    "use estimator cohort"
                )
            if starts:
                layers_M[m].append((layer, starts))
    return layers_M


def _slope(norm: nn.Module, x_PI: Tensor) -> Tensor:
    """The derivative of a norm's output by its weight, (P, I). A norm is linear in its weights."""
    one_I = torch.ones_like(norm.get_parameter("weight"))
    if type(norm) is nn.LayerNorm and norm.bias is not None:
        return F.layer_norm(x_PI, norm.normalized_shape, one_I, norm.bias, norm.eps).sub_(norm.bias)
    without_PI, with_PI = (functional_call(norm, {"weight": one_I * scale}, (x_PI,)) for scale in (0, 1))
    return with_PI.sub_(without_PI)
