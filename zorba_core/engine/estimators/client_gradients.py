"""Each client's own gradient, of many clients whose rows go through the blocks together.

A backward pass adds up what all rows want of a weight. Here every layer with parameters is a function of its own
(:mod:`zorba_core.engine.estimators.client_layers`): its backward pass hands on the rows' gradients as usual, and writes
what each client's rows want of the layer's parameters into that client's vector. For a linear layer that is the product
of the client's output gradients and inputs. So wide products serve many clients, and nothing is computed twice.

Blocks are differentiated one after another, from the last to the first that any of the clients activates. Nothing is
kept of the blocks before it, and what a block kept is freed as soon as it is differentiated. A block with a layer that
is not known here goes through autograd client by client, and OPT's and GPT-2's without it
(:mod:`zorba_core.engine.estimators.pre_norm_blocks`).

Shapes: P parts (rows of one client), R rows of all parts, E examples, L positions, H hidden size, M blocks.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from zorba_core.engine.estimators.client_layers import (
    BlockGradient,
    LayerFunctions,
    Owners,
    UnknownLayoutError,
)
from zorba_core.engine.estimators.pre_norm_blocks import PreNormBlock
from zorba_core.engine.network import SAME_BITS_ROWS, BlockNetwork, Inactive
from zorba_core.engine.precision import products_in
from zorba_core.engine.row_kinds import Rows
from zorba_core.engine.rows import Encoded
from zorba_core.garbage import no_collections


@dataclass(frozen=True, eq=False)
class MicroBatch:
    """Rows of one client that go through the blocks together."""

    client: int
    rows: Rows
    weight: float  # of all of the client's examples: F_n is a sum over them, divided by it
    gradient_M: Mapping[int, BlockGradient]  # of the blocks that the client activates: what is wanted

    @property
    def num_rows(self) -> int:
        return len(self.rows.token_ids_RL)

    @property
    def length(self) -> int:
        """L."""
        return self.rows.token_ids_RL.shape[1]


@dataclass(frozen=True, eq=False)
class _Strand:
    """Rows that went through a block in one way."""

    where: slice | Tensor  # among the rows of all parts
    x: Tensor
    y: Tensor
    owner: MicroBatch | None = None  # whose gradient of the block's parameters autograd gives
    back: Callable[[Tensor], Tensor | None] | None = None  # the block's backward pass, where it has its own


class ClientGradients:
    """Passes through a network that give each client's gradient. Use within :meth:`installed`."""

    def __init__(self, network: BlockNetwork, inactive: Inactive) -> None:
        self._network, self._inactive, self._last = network, inactive, network.num_blocks - 1
        self._anchor = torch.zeros((), dtype=network.dtype, device=network.device, requires_grad=True)
        self._numbers = self._anchor.new_empty(0)  # of gradients, for one share after another
        self._trained_M = [list(network.block_parameters(m).values()) for m in range(network.num_blocks)]
        self._products = partial(_products, network)  # no method: a circle would keep the gradients for a while
        self._layers_M = [
            LayerFunctions.of(network.block_module(m), self._trained_M[m], self._anchor, self._products)
            for m in range(network.num_blocks)
        ]
        plain = network.device.type == "cpu" and network.precision != "bf16"
        self._written_out_M: list[PreNormBlock | None] = [None] * network.num_blocks
        for m, layers in enumerate(self._layers_M):
            if plain and layers is not None:
                block = PreNormBlock.of(network.block_module(m), dict(layers.layers))
                self._written_out_M[m] = block if block is None or m < self._last or block.can_read else None
        if inactive == "dropped":  # a block without weights is made now: a copy of one whose layers are still its own
            network.run_block_without_weights(self._anchor.new_zeros(1, 1, network.model.config.hidden_size))

    def tables(self, share: Sequence[int], A_MN: np.ndarray, early: Container[int]) -> list[tuple[list[int], Tensor]]:
        """Of each block, which clients of the share activate it, and a table for their gradients of it, (C, D_m).

        The tables overlap. Of clients that are not ``early``, who are the last of the share, a block's rows lie where
        the early ones' rows of the blocks behind it lie: a block is to be done with before they are written. And they
        last until the next share's tables.
        """
        clients_M = [[n for n in share if active_N[n]] for active_N in A_MN]
        sizes_M = self._network.sizes_M
        early_M = [size * sum(n in early for n in clients) for size, clients in zip(sizes_M, clients_M, strict=True)]
        start_M = [0, *itertools.accumulate(early_M)][:-1]
        stop_M = [at + len(of) * size for at, of, size in zip(start_M, clients_M, sizes_M, strict=True)]
        if len(self._numbers) < max(stop_M):
            self._numbers = self._anchor.new_empty(0)  # the smaller ones go first
            self._numbers = self._anchor.new_empty(max(stop_M))
        return [
            (clients, self._numbers[start:stop].view(len(clients), size))
            for clients, start, stop, size in zip(clients_M, start_M, stop_M, sizes_M, strict=True)
        ]

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Within the context the network's layers are those functions; they compute what they did."""
        if self._network.device.type == "cpu":
            _keep_freed_memory()
        with no_collections(), contextlib.ExitStack() as stack:
            for m, layers in enumerate(self._layers_M):
                stack.callback(self._differentiate, m, False)
                if layers is None:
                    self._differentiate(m, True)
                else:
                    stack.enter_context(layers.installed())
            yield

    def _differentiate(self, m: int, by_parameters: bool) -> None:
        for parameter in self._trained_M[m]:
            parameter.requires_grad_(by_parameters)

    def pass_through(
        self, parts: Sequence[MicroBatch], completed: Callable[[int], None] = lambda block: None
    ) -> np.ndarray:
        """Write the parts' gradients of F_n, or add them to what earlier parts of the same client have written.

        Args:
            completed: called with each block, the last one first, as soon as it is differentiated.

        Returns:
            What each part's examples contribute to F_n, (P,), float64.
        """
        network = self._network
        rows = parts[0].rows.joined([part.rows for part in parts], network.device)
        stop_P = np.cumsum([part.num_rows for part in parts])
        places = [slice(int(stop) - part.num_rows, int(stop)) for part, stop in zip(parts, stop_P, strict=True)]
        owned = list(zip(parts, places, strict=True))
        first = min((m for part in parts for m in part.gradient_M), default=network.num_blocks)
        with torch.no_grad():
            hidden = network.embed(rows.token_ids_RL)
        strands_M = []
        for m in range(network.num_blocks):
            with torch.set_grad_enabled(m >= first):
                try:
                    strands = self._through(m, hidden, rows, owned, needs_input=m > first)
                except UnknownLayoutError:
                    self._layers_M[m] = None  # from now on by autograd, client by client
                    self._differentiate(m, True)
                    strands = self._through(m, hidden, rows, owned, needs_input=m > first)
                strands_M.append(strands)
            hidden = _gathered([(strand.where, strand.y.detach()) for strand in strands_M[-1]])
        loss_P, along = _losses(network, rows, hidden, parts, wants_gradient=first <= self._last)
        for m in range(self._last, first - 1, -1):
            along = self._back(m, strands_M.pop(), along)
            for part in parts:
                if m in part.gradient_M:
                    part.gradient_M[m].complete(self._trained_M[m])
            completed(m)
        return loss_P

    def _through(
        self, m: int, hidden_RLH: Tensor, rows: Rows, owned: list[tuple[MicroBatch, slice]], needs_input: bool
    ) -> list[_Strand]:
        """All rows through block m, in as few strands as their clients' gradients need."""
        active = [(part, where) for part, where in owned if m in part.gradient_M]
        passive = [(part, where) for part, where in owned if m not in part.gradient_M]
        dropped = self._inactive == "dropped"
        layers = self._layers_M[m]

        def strand(where: slice | Tensor, run: Callable[[Tensor], Tensor], owner: MicroBatch | None = None) -> _Strand:
            x = hidden_RLH[where].detach().requires_grad_(needs_input)
            return _Strand(where, x, run(x), owner)

        strands = []
        if dropped and passive:
            where = _joined([where for _, where in passive])
            strands.append(strand(where, partial(self._without_weights, m, rows, where)))
        if layers is not None and (active or not dropped):
            owners = _owners(m, active if dropped else owned, hidden_RLH.shape[1])
            where = _joined([where for _, where in (active if dropped else owned)])
            # Modules repeat few rows that are read, and such products round otherwise.
            fits = m < self._last or (isinstance(rows, Encoded) and owners.rows >= SAME_BITS_ROWS)
            if fits and self._written_out_M[m] is not None and torch.is_grad_enabled():
                x = hidden_RLH[where]
                y, back = self._written_out_M[m].forward(x, rows.last_R[where] if m == self._last else None)
                strands.append(_Strand(where, x, y, back=partial(back, owners, needs_input)))
            else:
                with layers.owned_by(owners):
                    strands.append(strand(where, partial(self._run, m, rows, where)))
        elif layers is None:
            if not dropped and passive:
                where = _joined([where for _, where in passive])
                strands.append(strand(where, partial(self._run, m, rows, where)))
            strands += [strand(where, partial(self._run, m, rows, where), part) for part, where in active]
        return strands

    def _run(self, m: int, rows: Rows, where: slice | Tensor, x: Tensor) -> Tensor:
        if m == self._last:
            return rows.after_last_block(self._network, x, where)
        return self._network.run_block(m, x)

    def _without_weights(self, m: int, rows: Rows, where: slice | Tensor, x: Tensor) -> Tensor:
        y = self._network.run_block_without_weights(x)
        return rows.read(y, where) if m == self._last else y

    def _back(self, m: int, strands: list[_Strand], along: Tensor) -> Tensor | None:
        """From the gradients of block m's output to those of its input, where they are needed."""
        parameters = self._trained_M[m]
        inputs = []
        for strand in strands:
            if strand.back is not None:
                into = strand.back(along[strand.where])
                inputs += [] if into is None else [(strand.where, into)]
                continue
            if not strand.y.requires_grad:  # without weights, and nobody asks for its input's gradient
                continue
            wanted = [self._anchor, *([strand.x] if strand.x.requires_grad else [])]
            mine = parameters if strand.owner is not None else []
            with self._products():
                gradients = torch.autograd.grad(strand.y, [*wanted, *mine], along[strand.where], allow_unused=True)
            if strand.owner is not None:
                strand.owner.gradient_M[m].add_all(parameters, gradients[len(wanted) :])
            if strand.x.requires_grad:
                inputs.append((strand.where, gradients[1]))
        return _gathered(inputs) if inputs else None


def _products(network: BlockNetwork) -> contextlib.AbstractContextManager[None]:
    """The precision of products that a backward pass multiplies in. (What autocast has rounded, it knows.)"""
    return products_in("highest" if network.precision == "bf16" else network.precision, network.device)


@functools.cache
def _keep_freed_memory() -> None:
    """Let glibc keep up to 64 MiB that were freed at the end of its heap. Else what one piece of rows kept goes back to
    the system and is cleared for the next piece: a tenth of a small model's time.

    It keeps twice the largest tensor that was freed so far and had memory of its own, up to 32 MiB (mallopt(3): the
    dynamic threshold). This one is never written to, and so takes no memory.
    """
    np.empty(2**25 - 2**16, np.uint8)


def _owners(m: int, clients: list[tuple[MicroBatch, slice]], length: int) -> Owners:
    """Whose rows stand where among those of the given clients."""
    start, placed = 0, []
    for part, _ in clients:
        if m in part.gradient_M:
            placed.append((start, part.num_rows, part.gradient_M[m]))
        start += part.num_rows
    return Owners.among(start, length, placed)


def _losses(
    network: BlockNetwork, rows: Rows, final: Tensor, parts: Sequence[MicroBatch], wants_gradient: bool
) -> tuple[np.ndarray, Tensor | None]:
    """What each part contributes to F_n, and the gradient of the sum of them by what the loss reads."""
    examples_P = [len(part.rows) for part in parts]
    share_E = np.repeat([1 / part.weight for part in parts], examples_P)
    final = final.requires_grad_(wants_gradient)
    with torch.set_grad_enabled(wants_gradient):
        loss_E = rows.losses(network, final) * torch.from_numpy(share_E).to(final.device)
        along = torch.autograd.grad(loss_E.sum(), final)[0] if wants_gradient else None
    part_E = np.repeat(np.arange(len(parts)), examples_P)
    return np.bincount(part_E, weights=loss_E.detach().cpu().numpy(), minlength=len(parts)), along


def _joined(places: list[slice]) -> slice | Tensor:
    """All of them: a slice where they follow each other."""
    if all(before.stop == after.start for before, after in itertools.pairwise(places)):
        return slice(places[0].start, places[-1].stop)
    return torch.cat([torch.arange(place.start, place.stop) for place in places])


def _gathered(pieces: list[tuple[slice | Tensor, Tensor]]) -> Tensor:
    """Rows in their places again."""
    if len(pieces) == 1:
        return pieces[0][1]
    whole = pieces[0][1].new_empty((sum(len(part) for _, part in pieces), *pieces[0][1].shape[1:]))
    for where, part in pieces:
        whole[where] = part
    return whole
