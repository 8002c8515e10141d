"""The paper's VRAM model (psi, section II) and the budgets that follow from it. The only place with 2**30.

A client that activates k blocks holds ``psi_md + k * psi_block`` bytes, with ``psi_block = (alpha + 3K + 1) B L H``
numbers. The term 3KBLH multiplies Q, K and V by the number of heads, which over-counts what a forward pass really
holds; it is kept because it is the paper's model and reproduces its Table II.

Shapes: N clients. ``capacity_N_bytes`` float64, ``budget_N`` int64 whole blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from zorba_core.checked import Checked, OneOf
from zorba_core.errors import InfeasibleError, InvalidInputError, in_short, name_some
from zorba_core.planning.methods import method_facts
from zorba_core.planning.models import ModelSpec
from zorba_core.planning.parameter_counts import MAX_SIZE

GIB = 2**30
MAX_CLIENTS = 1_000_000
MAX_VRAM_GIB = 1e9  # of one client
DTYPE_BYTES: Mapping[str, int] = {"float32": 4, "bfloat16": 2, "float16": 2, "float64": 8}

# A capacity such as "parameters plus exactly one block" must afford that block: dividing floats may give 0.999...
# The slack is far below one block in a million and far above float64's rounding.
_WHOLE_BLOCK_SLACK = 1e-9


class Workload(Checked):
    """What one forward pass processes: B sequences of L tokens in ``dtype``."""

    batch_size: int = Field(8, ge=1, le=MAX_SIZE)
    """Sequences of a batch, B."""
    seq_len: int = Field(128, ge=1, le=MAX_SIZE)
    """Tokens of a sequence, L."""
    dtype: Annotated[str, OneOf(lambda: DTYPE_BYTES.keys())] = "float32"
    """Number format: {choices}."""

    @property
    def bytes_per_number(self) -> int:
        return DTYPE_BYTES[self.dtype]


def psi_model_bytes(model: ModelSpec, workload: Workload) -> int:
    """psi_md: bytes for the model's parameters, which every client holds."""
    return model.num_parameters * workload.bytes_per_number


def psi_block_bytes(model: ModelSpec, workload: Workload) -> int:
    """psi_block = (alpha + 3K + 1) B L H numbers: bytes of activations for one activated block."""
    numbers = (model.ffn_ratio + 3 * model.num_heads + 1) * model.hidden_size * workload.batch_size * workload.seq_len
    return round(numbers * workload.bytes_per_number)


def psi_client_bytes(model: ModelSpec, workload: Workload, blocks_N: ArrayLike) -> NDArray[np.float64]:
    """psi_tot,n = psi_md + psi_block * (blocks that client n activates), in bytes, shape (N,)."""
    blocks = np.asarray(blocks_N, dtype=np.float64)
    return psi_model_bytes(model, workload) + psi_block_bytes(model, workload) * blocks


def total_bytes(
    model: ModelSpec, workload: Workload, num_clients: int, total_blocks: int | None = None, method: str = "zorba"
) -> int:
    """All clients together, as in Table II: parameters and activations, and FedIT's gradients (one more copy of d).

    ``total_blocks`` is the sum of the activation matrix and belongs to ZorBA; the baselines activate all M*N blocks.

    Raises:
        InvalidInputError: an unknown method, ``total_blocks`` missing for ZorBA, outside [max(M, N), M*N], or given
            for a baseline and not M*N.
    """
    facts = method_facts(method)
    if not 1 <= num_clients <= MAX_CLIENTS:
        raise InvalidInputError(f"number of clients is {in_short(num_clients)}; it must be from 1 to {MAX_CLIENTS}")
    most, least = model.num_blocks * num_clients, max(model.num_blocks, num_clients)
    if facts.allocates:
        if total_blocks is None:
            raise InvalidInputError(
                f"{facts.title}'s VRAM depends on the allocation: give the total of activated blocks"
            )
        if not least <= total_blocks <= most:
            raise InvalidInputError(
                f"total blocks is {total_blocks}; with {model.num_blocks} blocks and {num_clients} clients it must be "
                f"between {least} (each block and each client once) and {most}"
            )
    elif total_blocks not in (None, most):
        raise InvalidInputError(f"{method} activates all {most} blocks; leave total blocks out, or use method zorba")
    copies = 2 if facts.first_order else 1
    blocks = most if total_blocks is None else total_blocks
    return num_clients * copies * psi_model_bytes(model, workload) + blocks * psi_block_bytes(model, workload)


def affordable_blocks(
    capacity_N_bytes: ArrayLike, model: ModelSpec, workload: Workload, reserve_N_bytes: ArrayLike = 0.0
) -> NDArray[np.int64]:
    """floor((psi_max,n - psi_md - epsilon_n) / psi_block): whole blocks client n can hold, negative when not even the
    parameters fit. Broadcasts, so a reserve of shape (E, N) gives E budget vectors at once.

    Raises:
        InvalidInputError: a capacity or reserve that is not finite or is negative, naming the client.
    """
    capacity, reserve = np.asarray(capacity_N_bytes, np.float64), np.asarray(reserve_N_bytes, np.float64)
    for what, values in (("capacity", capacity), ("reserve", reserve)):
        bad = ~np.isfinite(values) | (values < 0)
        if bad.any():
            where = int(np.argwhere(bad)[0][-1]) if values.ndim else 0
            raise InvalidInputError(
                f"client {where}: {what} is {values[bad].flat[0]:g} bytes; it must be a finite number of at least 0"
            )
    free = capacity - psi_model_bytes(model, workload) - reserve
    blocks = np.floor(free / psi_block_bytes(model, workload) + _WHOLE_BLOCK_SLACK)
    return np.clip(blocks, -(2.0**62), 2.0**62).astype(np.int64)


def whole_block_budgets(
    capacity_N_bytes: ArrayLike, model: ModelSpec, workload: Workload, names: Sequence[str] | None = None
) -> NDArray[np.int64]:
    """lambda_n: whole blocks in 1..M that client n may activate. Errors call the clients by ``names``.

    The paper divides without rounding; the fractions then inflate gamma* beyond what any matrix attains, so budgets
    are floored before anything is computed from them.

    Raises:
        InfeasibleError: clients that cannot hold the model and one block, by index.
    """
    blocks = affordable_blocks(capacity_N_bytes, model, workload)
    clients = np.flatnonzero(blocks < 1).tolist()
    if clients:
        called = clients if names is None else [names[n] for n in clients]
        need = (psi_model_bytes(model, workload) + psi_block_bytes(model, workload)) / GIB
        raise InfeasibleError(
            f"{len(clients)} of {len(blocks)} clients cannot hold {model.name} and one block ({need:.3f} GiB): client "
            f"{name_some(called)}; leave them out, or lower batch size, sequence length or precision",
            clients=clients,
        )
    return np.minimum(blocks, model.num_blocks)
