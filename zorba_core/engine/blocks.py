"""Any Hugging Face causal language model as embed | block 0 .. block M-1 | head.

This works without code for each family of models. The model's forward pass runs with stand-ins for its blocks: the
first one stores the embedding, each stores the other arguments of its block (masks, rotations, positions), and after
the last one the model applies its final norm and head. A block is the model's module, called with the stored arguments.

Rows are padded on the right. Attention is causal, so positions before the padding do not depend on it, and no attention
mask is needed.

Shapes: R rows, L positions, H hidden size, S hidden states, C vocabulary rows, M blocks, D_m parameters of block m.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from zorba_core.engine.precision import products_in
from zorba_core.engine.rows import Rows
from zorba_core.errors import InvalidInputError, first_line

if TYPE_CHECKING:
    from peft import PeftModel

Inactive = Literal["frozen", "dropped"]
# In a float32 matrix product on the CPU with at least so many rows, a row's bits do not depend on the other rows (MKL).
SAME_BITS_ROWS = 16
_CACHED_CALLS = 64  # number of batch shapes whose block arguments (masks, rotations) are cached


class _Stop(Exception):
    """Ends a forward pass early."""


class Blocks:
    """The blocks of a model, whose weights are one flat vector each.

    The parameters of block m become views into ``block_weights(m)``, so writing to that vector changes the block.
    ``model`` is changed, not copied: it moves to the device and dtype, into evaluation mode, without gradients. For a
    model with adapters (:func:`zorba_core.engine.adapters.with_adapters`) the vectors hold the adapters only.

    Args:
        precision: precision of the products within blocks (:mod:`zorba_core.engine.precision`).

    Raises:
        InvalidInputError: the model has no list of blocks, or its attention is not causal.
    """

    def __init__(
        self,
        model: PreTrainedModel | PeftModel,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        precision: str = "highest",
    ) -> None:
        if isinstance(model, PreTrainedModel):
            self.adapted, base = None, model
        else:
            self.adapted, base = model, cast(PreTrainedModel, model.get_base_model())
        self._blocks = block_list(base)
        # The same kind of attention in all runs: eager attention differs from SDPA in the last bits.
        base.set_attn_implementation("sdpa" if getattr(base, "_supports_sdpa", False) else "eager")
        self.dtype, self.device, self.precision = dtype, torch.device(device), precision
        cast(nn.Module, base).to(device=device, dtype=dtype)
        self.model = base.eval().requires_grad_(False)
        for block in self._blocks:
            for part in block.modules():
                if isinstance(part, nn.ReLU):
                    part.inplace = True  # a copy of a block's widest tensor would not fit in the processor's cache
        self._weights_M = [_flattened(list(self.block_parameters(m).values())) for m in range(self.num_blocks)]
        self._calls = functools.lru_cache(_CACHED_CALLS)(self._catch_calls)

    @property
    def num_blocks(self) -> int:
        return len(self._blocks)

    @property
    def vocabulary_size(self) -> int:
        return len(self._head.weight)

    @property
    def _head(self) -> nn.Linear:
        return cast(nn.Linear, self.model.get_output_embeddings())  # block_list refuses a model without one

    @property
    def max_positions(self) -> int:
        """The most positions of a row. Models with ALiBi have no limit."""
        return int(getattr(self.model.config, "max_position_embeddings", None) or 2**31)

    @property
    def sizes_M(self) -> tuple[int, ...]:
        """d_m, the trained parameters of each block."""
        return tuple(weights.numel() for weights in self._weights_M)

    @property
    def shapes_M(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The shapes of each block's parameters, in their order in ``block_weights(m)``."""
        return tuple(
            tuple(tuple(part.shape) for part in self.block_parameters(m).values()) for m in range(self.num_blocks)
        )

    @property
    def has_adapters(self) -> bool:
        """Whether adapters are trained, not the blocks' weights."""
        return self.adapted is not None

    def block_weights(self, block: int) -> Tensor:
        """w_m, shape (D_m,): writing to it changes the block."""
        return self._weights_M[block]

    def block_module(self, block: int) -> nn.Module:
        """Block m as a module of the model."""
        return self._blocks[block]

    def block_parameters(self, block: int) -> dict[str, nn.Parameter]:
        """The trained parameters of block m by name within its module, in their order in ``block_weights(m)``."""
        named = self._blocks[block].named_parameters()
        return {name: parameter for name, parameter in named if not self.has_adapters or is_adapter(name)}

    @torch.no_grad()
    def copy_to_blocks(self, weights_M: Sequence[Tensor]) -> None:
        """w_m becomes a copy of ``weights_M[m]``, for every block."""
        for own, weights in zip(self._weights_M, weights_M, strict=True):
            own.copy_(weights)

    def embed(self, token_ids_RL: Tensor) -> Tensor:
        """Hidden states (R, L, H) that enter block 0."""
        caught: list[Tensor] = []

        def stop(hidden_RLH: Tensor, *_: Any, **__: Any) -> None:
            caught.append(hidden_RLH)
            raise _Stop

        with _replaced_forward(self._blocks[:1], [stop]), contextlib.suppress(_Stop):
            self.model(input_ids=token_ids_RL, use_cache=False)
        return caught[0]

    def run_block(self, block: int, hidden_RLH: Tensor) -> Tensor:
        """Hidden states (R, L, H) after block m with its current weights."""
        with products_in(self.precision, self.device):
            return self._call(self._blocks[block], block, hidden_RLH)

    def run_block_without_weights(self, block: int, hidden_RLH: Tensor) -> Tensor:
        """Hidden states (R, L, H) after a block whose weights are all zero: a literal reading of a_mn w_m, a_mn = 0.

        A block with its norms before its branches (OPT-125M, GPT-2, Llama) is then the identity. A block with its norms
        after them (OPT-350M) returns zeros, which do not depend on the text.
        """
        return self._call(self._without_weights, block, hidden_RLH)

    def vocabulary_logits(self, hidden_SH: Tensor, token_ids_V: Tensor) -> Tensor:
        """Logits (S, V), float64, of some tokens, from hidden states after the last block.

        The product is in float64: finite differences subtract two close losses, and float32 rounds a product of few
        rows differently from one of many rows.
        """
        head = self._head

        def of_tokens(normed: Tensor) -> Tensor:
            bias = None if head.bias is None else head.bias[token_ids_V].double()
            return F.linear(normed.double(), head.weight[token_ids_V].double(), bias)

        hidden_S1H = hidden_SH[:, None]
        handed_over = self._as_returned(hidden_S1H)
        stand_ins = [lambda hidden, *_, **__: handed_over] * self.num_blocks
        with _replaced_forward([*self._blocks, head], [*stand_ins, of_tokens]):
            one_token = torch.zeros(len(hidden_SH), 1, dtype=torch.long, device=self.device)
            return self.model(input_ids=one_token, use_cache=False).logits[:, 0]

    @torch.no_grad()
    def __call__(
        self, rows: Rows, active_M: Sequence[bool] | np.ndarray | None = None, inactive: Inactive = "frozen"
    ) -> Tensor:
        """The hidden states after the last block that the loss of ``rows`` needs, (R, P, H).

        With ``inactive="dropped"`` the blocks outside ``active_M`` run without weights. Otherwise every block runs with
        its weights.
        """
        hidden_RLH = self.embed(rows.token_ids_RL)
        for m in range(self.num_blocks):
            if inactive == "dropped" and active_M is not None and not active_M[m]:
                hidden_RLH = self.run_block_without_weights(m, hidden_RLH)
            else:
                hidden_RLH = self.run_block(m, hidden_RLH)
        return rows.read(hidden_RLH)

    def weights_sha256(self) -> str:
        """SHA-256 of the names and bits of all parameters: equal for two models with the same bits."""
        return fingerprint_of(self.model.named_parameters())

    @contextlib.contextmanager
    def moving(self, blocks: Iterable[int]) -> Iterator[dict[int, Tensor]]:
        """Context manager: yield the weights of these blocks, to be changed, and restore their bits at exit."""
        weights_by_block = {m: self._weights_M[m] for m in blocks}
        original = {m: weights.clone() for m, weights in weights_by_block.items()}
        try:
            yield weights_by_block
        finally:
            for m, weights in weights_by_block.items():
                weights.copy_(original[m])

    @contextlib.contextmanager
    def at_precision(self, precision: str) -> Iterator[None]:
        """Context manager: products of another precision."""
        before, self.precision = self.precision, precision
        try:
            yield
        finally:
            self.precision = before

    def _call(self, module: nn.Module, block: int, hidden_RLH: Tensor) -> Tensor:
        """Call a module with the arguments that the model gives to this block."""
        arguments, named = self._calls(*hidden_RLH.shape[:2])[block]
        returned = module(hidden_RLH, *arguments, **named)
        return returned[0] if isinstance(returned, tuple) else returned

    @functools.cached_property
    @torch.no_grad()
    def _without_weights(self) -> nn.Module:
        block = copy.deepcopy(self._blocks[0])
        for parameter in block.parameters():
            parameter.zero_()
        return block

    @torch.no_grad()
    def check(self) -> None:
        """Compare embedding, blocks and head, called one by one, with the model's forward pass on a few tokens, and
        its logits with those where the last token is another one.

        Raises:
            InvalidInputError: they differ by more than rounding, e.g. because the model computes something between
                its blocks; or logits before the last token depend on it, as in a masked language model.
        """
        vocabulary, kind = self.vocabulary_size, self.model.config.model_type
        token_ids_RL = (torch.arange(14, device=self.device).view(2, 7) * 31) % vocabulary
        own_SC = self.model(input_ids=token_ids_RL, use_cache=False).logits.flatten(0, 1).double()
        size, other_RL = max(float(own_SC.abs().max()), 1e-3), token_ids_RL.clone()
        other_RL[:, -1] = (other_RL[:, -1] + 1) % vocabulary
        other_RLC = self.model(input_ids=other_RL, use_cache=False).logits.double()
        moved = float((other_RLC - own_SC.view_as(other_RLC))[:, :-1].abs().max())
        if not moved <= 1e-5 * size:
            raise InvalidInputError(
                f"this {kind} model looks ahead: another last token moves the logits before it by {moved:.1g} (logits "
                f"up to {size:.1g}), as in a masked language model; give a causal one, such as facebook/opt-125m"
            )
        try:
            hidden_RLH = self.embed(token_ids_RL)
            with self.at_precision("highest"):
                for m in range(self.num_blocks):
                    hidden_RLH = self.run_block(m, hidden_RLH)
            logits_SC = self.vocabulary_logits(hidden_RLH.flatten(0, 1), torch.arange(vocabulary, device=self.device))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(
                f"the blocks of this {kind} model cannot be called one by one ({first_line(error)}); use another kind "
                "of model"
            ) from None
        apart = float((logits_SC - own_SC).abs().max())
        if not apart <= 1e-3 * size:
            raise InvalidInputError(
                f"the blocks of this {kind} model, called one by one, differ from the model's own forward pass by "
                f"{apart:.1g} (logits up to {size:.1g}); use another kind of model"
            )

    @functools.cached_property
    @torch.no_grad()
    def _tuple_length(self) -> int:
        """The length of the tuple that the first block returns; 0 if it returns a tensor."""
        seen: list[int] = []
        hook = self._blocks[0].register_forward_hook(
            lambda _, __, returned: seen.append(len(returned) if isinstance(returned, tuple) else 0)
        )
        self.model(input_ids=torch.zeros(1, 2, dtype=torch.long, device=self.device), use_cache=False)
        hook.remove()
        return seen[0]

    def _as_returned(self, hidden: Tensor) -> Tensor | tuple[Tensor | None, ...]:
        """Hidden states in the form in which the model's blocks return them."""
        return (hidden, *[None] * (self._tuple_length - 1)) if self._tuple_length else hidden

    @torch.no_grad()
    def _catch_calls(self, rows: int, length: int) -> list[tuple[tuple, dict[str, Any]]]:
        """Each block's positional and keyword arguments after the hidden states, for a batch of this shape."""
        calls: list[tuple[tuple, dict[str, Any]]] = []
        _ = self._tuple_length  # computed before the blocks are replaced

        def catch(hidden_RLH: Tensor, *arguments: Any, **named: Any) -> Any:
            calls.append((arguments, named))
            return self._as_returned(hidden_RLH)

        with _replaced_forward(self._blocks, [catch] * self.num_blocks):
            token_ids_RL = torch.zeros(rows, length, dtype=torch.long, device=self.device)
            self.model(input_ids=token_ids_RL, use_cache=False, logits_to_keep=1)
        return calls


def block_list(model: PreTrainedModel) -> list[nn.Module]:
    """The M transformer blocks, first to last.

    Raises:
        InvalidInputError: the model has no list with as many modules as its config has hidden layers, or no head, or
            its attention is not causal.
    """
    config = model.config
    if getattr(config, "use_bidirectional_attention", False) or not getattr(config, "is_causal", True):
        raise InvalidInputError(f"this {config.model_type} model looks ahead: its attention is not causal")
    count = getattr(config, "num_hidden_layers", None)
    lists = [part for part in model.modules() if isinstance(part, nn.ModuleList) and len(part) == count]
    if not lists or model.get_output_embeddings() is None:
        raise InvalidInputError(f"a {type(model).__name__} has no list of {count} blocks with a head after it")
    return list(lists[0])


def is_adapter(name: str) -> bool:
    """Whether a parameter of this name belongs to an adapter."""
    return ".lora_A." in name or ".lora_B." in name


def fingerprint_of(named_parameters: Iterable[tuple[str, Tensor]]) -> str:
    """SHA-256 of the names, dtypes, shapes and bits of all parameters."""
    digest = hashlib.sha256()
    for name, parameter in sorted(named_parameters):
        digest.update(f"{name} {parameter.dtype} {tuple(parameter.shape)}\n".encode())
        digest.update(parameter.detach().contiguous().cpu().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _flattened(parameters: Sequence[nn.Parameter]) -> Tensor:
    """One vector with all numbers of the parameters, which become views into it."""
    flat = torch.cat([parameter.data.reshape(-1) for parameter in parameters])
    start = 0
    for parameter in parameters:
        parameter.data = flat[start : start + parameter.numel()].view(parameter.shape)
        start += parameter.numel()
    return flat


@contextlib.contextmanager
def _replaced_forward(modules: Sequence[nn.Module], stand_ins: Sequence[Callable[..., Any]]) -> Iterator[None]:
    """Context manager: replace the forward passes of these modules by functions."""
    before = [vars(module).get("forward") for module in modules]
    try:
        for module, stand_in in zip(modules, stand_ins, strict=True):
            module.forward = stand_in
        yield
    finally:
        for module, own in zip(modules, before, strict=True):
            del module.forward
            if own is not None:
                module.forward = own
