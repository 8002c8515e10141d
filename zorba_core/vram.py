"""The paper's VRAM model (psi, section II-B), presets of models, and budgets of whole blocks.

A client that activates k blocks needs ``psi_md + k * psi_block`` bytes. The term 3KBLH in psi_block multiplies Q, K and
V by the number of heads, more than a forward pass stores. It is used as printed because it reproduces the paper's
Table II.

Only :func:`spec_from_config` loads torch: it builds a model without weights to count its parameters.

Shapes: N clients. ``capacity_N_bytes`` float64, ``budget_N`` int64 whole blocks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from zorba_core.checked import Checked, OneOf
from zorba_core.errors import InfeasibleError, InvalidInputError, MissingDataError, first_line, in_short, name_some

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

GIB = 2**30
MAX_CLIENTS = 1_000_000
MAX_VRAM_GIB = 1e9  # of one client
DTYPE_BYTES: Mapping[str, int] = {"float32": 4, "bfloat16": 2, "float16": 2, "float64": 8}

_MAX_SIZE = 10**9
# A capacity of exactly the parameters and one block must afford that block, but division of floats may give 0.999...
# The slack is far above float64's rounding and too small to add a block.
_WHOLE_BLOCK_SLACK = 1e-9


class Workload(Checked, frozen=True):
    """The input of one forward pass: B sequences of L tokens, computed in ``dtype``."""

    batch_size: int = Field(default=8, ge=1, le=_MAX_SIZE)
    """Sequences of a batch, B."""
    seq_len: int = Field(default=128, ge=1, le=_MAX_SIZE)
    """Tokens of a sequence, L."""
    dtype: Annotated[str, OneOf(lambda: DTYPE_BYTES.keys())] = "float32"
    """Number format: {choices}."""

    @property
    def bytes_per_number(self) -> int:
        """Bytes of one number in ``dtype``."""
        return DTYPE_BYTES[self.dtype]


PAPER_WORKLOAD = Workload()  # of AG-News and SST-2; SNLI has L = 256


@dataclass(frozen=True)
class ModelSpec:
    """The sizes of a language model that psi needs: a decoder of ``num_blocks`` equal transformer blocks.

    The presets of OPT-125M and OPT-1.3B have the rounded d of the paper's Table II (125.1e6 and 1.3e9), which
    reproduces its cells; a model from a config has the exact count.
    """

    name: str
    num_blocks: int  # M
    hidden_size: int  # H
    num_heads: int  # K
    num_parameters: int  # d
    ffn_ratio: float = 4.0  # alpha, feed-forward width over hidden size


PRESETS: Mapping[str, ModelSpec] = {
    spec.name: spec
    for spec in (
        ModelSpec("opt-125m", num_blocks=12, hidden_size=768, num_heads=12, num_parameters=125_100_000),
        ModelSpec("opt-350m", num_blocks=24, hidden_size=1024, num_heads=16, num_parameters=331_196_416),
        ModelSpec("opt-1.3b", num_blocks=24, hidden_size=2048, num_heads=32, num_parameters=1_300_000_000),
        ModelSpec("opt-2.7b", num_blocks=32, hidden_size=2560, num_heads=32, num_parameters=2_651_596_800),
        ModelSpec("opt-30b", num_blocks=48, hidden_size=7168, num_heads=56, num_parameters=29_974_540_288),
        ModelSpec("smollm2-135m", 30, hidden_size=576, num_heads=9, num_parameters=134_515_008, ffn_ratio=1536 / 576),
    )
}


def psi_model_bytes(model: ModelSpec, workload: Workload) -> int:
    """psi_md: bytes of the model's parameters, on every client."""
    return model.num_parameters * workload.bytes_per_number


def psi_block_bytes(model: ModelSpec, workload: Workload) -> int:
    """psi_block = psi_hd + psi_qkv + psi_ffn = (alpha + 3K + 1) B L H numbers: bytes of one activated block."""
    numbers = (model.ffn_ratio + 3 * model.num_heads + 1) * model.hidden_size * workload.batch_size * workload.seq_len
    return round(numbers * workload.bytes_per_number)


def psi_client_bytes(model: ModelSpec, workload: Workload, blocks_N: ArrayLike) -> NDArray[np.float64]:
    """psi_tot,n = psi_act,n + psi_md with psi_act,n = psi_block * (activated blocks of client n), in bytes, (N,)."""
    blocks = np.asarray(blocks_N, dtype=np.float64)
    return psi_model_bytes(model, workload) + psi_block_bytes(model, workload) * blocks


def psi_total_bytes(model: ModelSpec, workload: Workload, num_clients: int, blocks: int, copies: int = 1) -> int:
    """sum_n psi_tot,n, a cell of Table II: ``copies`` of the parameters on each client (2 if it stores gradients) and
    ``blocks`` activated blocks over all clients.

    Raises:
        InvalidInputError: a number of clients out of range.
    """
    check_clients(num_clients)
    return num_clients * copies * psi_model_bytes(model, workload) + blocks * psi_block_bytes(model, workload)


def check_clients(num_clients: int) -> None:
    """Refuse a number of clients out of range.

    Raises:
        InvalidInputError: fewer than one client, or more than :data:`MAX_CLIENTS`.
    """
    if not 1 <= num_clients <= MAX_CLIENTS:
        raise InvalidInputError(f"number of clients is {in_short(num_clients)}; it must be from 1 to {MAX_CLIENTS}")


def affordable_blocks(
    capacity_N_bytes: ArrayLike, model: ModelSpec, workload: Workload, reserve_N_bytes: ArrayLike = 0.0
) -> NDArray[np.int64]:
    """floor((psi_max,n - psi_md - epsilon_n) / psi_block): whole blocks that client n can hold; negative if the
    parameters do not fit. Broadcasts: a reserve of shape (E, N) gives E budget vectors.

    Raises:
        InvalidInputError: a capacity or reserve is negative or not finite; names the client.
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
    """lambda_n*: whole blocks in 1..M that client n may activate. ``names`` are the clients' names for errors.

    The paper does not round. Fractions of blocks give a gamma* that no matrix attains, so budgets are rounded down
    first.

    Raises:
        InfeasibleError: a client cannot hold the model and one block.
    """
    blocks = affordable_blocks(capacity_N_bytes, model, workload)
    clients = np.flatnonzero(blocks < 1).tolist()
    if clients:
        called = f"client {name_some(clients)}" if names is None else name_some([names[n] for n in clients])
        need = (psi_model_bytes(model, workload) + psi_block_bytes(model, workload)) / GIB
        raise InfeasibleError(
            f"{len(clients)} of {len(blocks)} clients cannot hold {model.name} and one block ({need:.3f} GiB): "
            f"{called}; leave them out, or lower batch size, sequence length or precision"
        )
    return np.minimum(blocks, model.num_blocks)


def model_spec(name_or_path: str | os.PathLike[str]) -> ModelSpec:
    """A preset by name (``opt-1.3b``), or the model of a Hugging Face folder or ``config.json`` by path.

    Raises:
        InvalidInputError: the name is no preset and no path, or the file is no config of a causal language model.
        MissingDataError: a folder without ``config.json``.
    """
    key = str(name_or_path).lower().removeprefix("facebook/")
    if key in PRESETS:
        return PRESETS[key]
    path = Path(name_or_path)
    if os.path.isdir(path):
        path = path / "config.json"
        if not path.is_file():
            raise MissingDataError(f"model folder {str(name_or_path)!r} has no config.json; give a Hugging Face folder")
    if not os.path.isfile(path):
        raise InvalidInputError(
            f"unknown model {in_short(str(name_or_path), 200)}; choose one of {', '.join(PRESETS)}, "
            "or give the path of a Hugging Face folder or config.json"
        )
    name = path.parent.name if path.name == "config.json" else path.stem
    try:
        config = json.loads(path.read_text(encoding="utf-8"), object_hook=_special_float)
    except ValueError:
        raise InvalidInputError(f"{path}: not JSON; give a Hugging Face config.json") from None
    if not isinstance(config, dict):
        raise InvalidInputError(f"{path}: a model config must be a JSON object, not a {type(config).__name__}")
    return spec_from_config(config, name or str(path))


def _special_float(value: dict[str, Any]) -> Any:
    """Infinity as ``transformers`` writes it, which JSON does not have."""
    return float(value["__float__"]) if value.keys() == {"__float__"} else value


def spec_from_config(config: PretrainedConfig | Mapping[str, Any], name: str) -> ModelSpec:
    """M, H, K, alpha and d of any causal language model of ``transformers``, from its config: the model is built on the
    ``meta`` device, without weights, and its parameters are counted.

    Raises:
        InvalidInputError: ``transformers`` cannot build a causal language model from the config.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        if isinstance(config, Mapping):
            config = AutoConfig.for_model(**config)
        others = [kind for kind in ("vision", "audio") if getattr(config, f"{kind}_config", None)]
        if others:
            raise InvalidInputError(
                f"model {name!r}: a {config.model_type} model has a part for {' and '.join(others)}, and only language "
                "models of text are trained here; give such a one, as facebook/opt-125m"
            )
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    except InvalidInputError:
        raise
    except Exception as error:  # a config from outside can be wrong in any way
        raise InvalidInputError(
            f"model {name!r}: transformers cannot build a causal language model from its config "
            f"({first_line(error)[:200]}); give one such as facebook/opt-125m"
        ) from None
    return spec_of_model(model, name)


def spec_of_model(model: PreTrainedModel, name: str) -> ModelSpec:
    """M, H, K, alpha and d of a loaded model. Tied weights are counted once.

    Raises:
        InvalidInputError: it has no attention, as Mamba and RWKV.
    """
    sizes = model.config.get_text_config()
    if not getattr(sizes, "num_attention_heads", None):
        raise InvalidInputError(
            f"model {name!r}: a {sizes.model_type} model has no attention heads, and only transformers are trained "
            "here; give a model with attention, such as facebook/opt-125m"
        )
    widths = (getattr(sizes, field, None) for field in ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"))
    ffn = next((width for width in widths if width), 4 * sizes.hidden_size)
    return ModelSpec(
        name,
        sizes.num_hidden_layers,
        sizes.hidden_size,
        sizes.num_attention_heads,
        sum(parameter.numel() for parameter in model.parameters()),
        ffn / sizes.hidden_size,
    )
