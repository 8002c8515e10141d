"""Any Hugging Face causal language model as embed | block 0 .. block M-1 | head, by its own forward pass.

Nothing of a family of models is written here. The model's own forward pass runs with stand-ins for its blocks: the
first stand-in catches the embedding, each of them catches what its block is called with (masks, rotations, positions),
and after the last one the model applies its own final norm and head. A block is the model's own module, called with
what its stand-in caught.

Rows are padded on the right. Attention is causal, so padding behind the positions that are read cannot reach them and
no attention mask is needed.

Shapes: R rows, L positions, H hidden size, S hidden states, C vocabulary rows, M blocks, D_m parameters of block m.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from zorba_core.engine.precision import products_in
from zorba_core.engine.rows import Rows
from zorba_core.errors import InvalidInputError

if TYPE_CHECKING:
    from peft import PeftModel

Inactive = Literal["frozen", "dropped"]
# From so many rows on, a float32 matrix product on the CPU rounds a row the same whatever rows are beside it (MKL).
SAME_BITS_ROWS = 16
_CACHED_CALLS = 64  # batch shapes whose masks and rotations are kept


class _Stop(Exception):
    """Ends a forward pass whose wanted part is done."""


class Blocks:
    """The blocks of a model, whose weights are one flat vector each.

    The parameters of block m become views into ``block_weights(m)``: what is written there is what the block computes
    with. ``model`` is taken over, not copied: it moves to the device and dtype, in evaluation mode, and needs no
    gradient. Of a model with adapters (:func:`zorba_core.engine.adapters.with_adapters`) the weights are those of the
    adapters alone.

    Args:
        precision: of the products within blocks (:mod:`zorba_core.engine.precision`).

    Raises:
        InvalidInputError: the model has no list of blocks, or looks ahead.
    """

    def __init__(
        self,
        model: PreTrainedModel | PeftModel,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        precision: str = "highest",
    ) -> None:
        self.adapted = None if isinstance(model, PreTrainedModel) else model
        model = model if self.adapted is None else self.adapted.get_base_model()
        self._blocks = block_list(model)
        # One kind of attention for all runs: eager attention differs from it in the last bits.
        model.set_attn_implementation("sdpa" if getattr(model, "_supports_sdpa", False) else "eager")
        self.dtype, self.device, self.precision = dtype, torch.device(device), precision
        self.model = model.to(device=device, dtype=dtype).eval().requires_grad_(False)
        for block in self._blocks:
            for part in block.modules():
                if isinstance(part, nn.ReLU):
                    part.inplace = True  # a copy of a block's widest tensor would leave the processor's cache
        self._weights_M = [_flattened(list(self.block_parameters(m).values())) for m in range(self.num_blocks)]
        self._calls = functools.lru_cache(_CACHED_CALLS)(self._catch_calls)

    @property
    def num_blocks(self) -> int:
        return len(self._blocks)

    @property
    def vocabulary_size(self) -> int:
        return len(self.model.get_output_embeddings().weight)

    @property
    def max_positions(self) -> int:
        """Longest row; ALiBi sets no limit."""
        return int(getattr(self.model.config, "max_position_embeddings", None) or 2**31)

    @property
    def sizes_M(self) -> tuple[int, ...]:
        """d_m, the trained parameters of each block."""
        return tuple(weights.numel() for weights in self._weights_M)

    @property
    def shapes_M(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The shapes of each block's parameters, in the order in which they stand in ``block_weights(m)``."""
        return tuple(
            tuple(tuple(part.shape) for part in self.block_parameters(m).values()) for m in range(self.num_blocks)
        )

    @property
    def has_adapters(self) -> bool:
        """Are adapters what is trained?"""
        return self.adapted is not None

    def block_weights(self, block: int) -> Tensor:
        """w_m, shape (D_m,): writing to it changes the block."""
        return self._weights_M[block]

    def block_module(self, block: int) -> nn.Module:
        """Block m as the model's own module."""
        return self._blocks[block]

    def block_parameters(self, block: int) -> dict[str, nn.Parameter]:
        """What is trained of block m, by name within its module: in order, the parts of ``block_weights(m)``."""
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
        """Hidden states (R, L, H) after block m with its present weights."""
        with products_in(self.precision, self.device):
            return self._call(self._blocks[block], block, hidden_RLH)

    def run_block_without_weights(self, block: int, hidden_RLH: Tensor) -> Tensor:
        """What a block whose weights are all zero returns: a_mn w_m with a_mn = 0, read literally.

        A block whose norms come before its branches (OPT-125M, GPT-2, Llama) is then the identity. One whose norms come
        after them (OPT-350M) returns zeros: the text is lost.
        """
        return self._call(self._without_weights, block, hidden_RLH)

    def vocabulary_logits(self, hidden_SH: Tensor, token_ids_V: Tensor) -> Tensor:
        """Logits (S, V), float64, of some tokens, from hidden states after the last block.

        The product is float64: a difference of two close losses is next, and a float32 product of few rows rounds
        otherwise than one of many.
        """
        head = self.model.get_output_embeddings()

        def of_tokens(normed: Tensor) -> Tensor:
            bias = None if head.bias is None else head.bias[token_ids_V].double()
            return F.linear(normed.double(), head.weight[token_ids_V].double(), bias)

        hidden_S1H = hidden_SH[:, None]
        handed_over = (hidden_S1H,) if self._in_tuple else hidden_S1H
        stand_ins = [lambda hidden, *_, **__: handed_over] * self.num_blocks
        with _replaced_forward([*self._blocks, head], [*stand_ins, of_tokens]):
            one_token = torch.zeros(len(hidden_SH), 1, dtype=torch.long, device=self.device)
            return self.model(input_ids=one_token, use_cache=False).logits[:, 0]

    @torch.no_grad()
    def __call__(self, rows: Rows, active_M: Sequence[bool] | None = None, inactive: Inactive = "frozen") -> Tensor:
        """What the loss and the prediction of ``rows`` read of the last block's output, (R, P, H).

        With ``inactive="dropped"`` the blocks outside ``active_M`` run without weights; with ``"frozen"`` (and when
        ``active_M`` is not given) every block runs with its weights.
        """
        hidden_RLH = self.embed(rows.token_ids_RL)
        for m in range(self.num_blocks):
            if inactive == "dropped" and active_M is not None and not active_M[m]:
                hidden_RLH = self.run_block_without_weights(m, hidden_RLH)
            else:
                hidden_RLH = self.run_block(m, hidden_RLH)
        return rows.read(hidden_RLH)

    def weights_sha256(self) -> str:
        """Fingerprint of every parameter's bits, by name: equal exactly when two models are."""
        return fingerprint_of(self.model.named_parameters())

    @contextlib.contextmanager
    def moving(self, blocks: Iterable[int]) -> Iterator[dict[int, Tensor]]:
        """Within the context the weights of these blocks may be written to. Afterwards they have the bits of before."""
        weights_by_block = {m: self._weights_M[m] for m in blocks}
        original = {m: weights.clone() for m, weights in weights_by_block.items()}
        try:
            yield weights_by_block
        finally:
            for m, weights in weights_by_block.items():
                weights.copy_(original[m])

    @contextlib.contextmanager
    def at_precision(self, precision: str) -> Iterator[None]:
        """Within the context, products of that precision instead of the model's own."""
        before, self.precision = self.precision, precision
        try:
            yield
        finally:
            self.precision = before

    def _call(self, module: nn.Module, block: int, hidden_RLH: Tensor) -> Tensor:
        """Call a module as the model calls that block."""
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
        """Compare the pieces, in order, with the model's own forward pass on a few tokens.

        Raises:
            InvalidInputError: they differ by more than rounding: the model does something between its blocks.
        """
        vocabulary = self.vocabulary_size
        token_ids_RL = (torch.arange(14, device=self.device).view(2, 7) * 31) % vocabulary
        hidden_RLH = self.embed(token_ids_RL)
        with self.at_precision("highest"):
            for m in range(self.num_blocks):
                hidden_RLH = self.run_block(m, hidden_RLH)
        logits_SC = self.vocabulary_logits(hidden_RLH.flatten(0, 1), torch.arange(vocabulary, device=self.device))
        own_SC = self.model(input_ids=token_ids_RL, use_cache=False).logits.flatten(0, 1).double()
        apart, size = float((logits_SC - own_SC).abs().max()), float(own_SC.abs().max())
        if not apart <= 1e-3 * max(size, 1e-3):
            raise InvalidInputError(
                f"the blocks of this {self.model.config.model_type} model, called one by one, differ from the model's "
                f"own forward pass by {apart:.1g} (logits up to {size:.1g}); use another kind of model"
            )

    @functools.cached_property
    @torch.no_grad()
    def _in_tuple(self) -> bool:
        """Does a block return a tuple? One call of the first block shows it."""
        own, seen = self._blocks[0].forward, []

        def look(*arguments: Any, **named: Any) -> None:
            seen.append(isinstance(own(*arguments, **named), tuple))
            raise _Stop

        with _replaced_forward(self._blocks[:1], [look]), contextlib.suppress(_Stop):
            self.model(input_ids=torch.zeros(1, 2, dtype=torch.long, device=self.device), use_cache=False)
        return seen[0]

    @torch.no_grad()
    def _catch_calls(self, rows: int, length: int) -> list[tuple[tuple, dict[str, Any]]]:
        """What each block is called with beside hidden states, for so many rows of so many positions."""
        calls: list[tuple[tuple, dict[str, Any]]] = []
        in_tuple = self._in_tuple  # before the blocks stand aside

        def catch(hidden_RLH: Tensor, *arguments: Any, **named: Any) -> Any:
            calls.append((arguments, named))
            return (hidden_RLH,) if in_tuple else hidden_RLH

        with _replaced_forward(self._blocks, [catch] * self.num_blocks):
            token_ids_RL = torch.zeros(rows, length, dtype=torch.long, device=self.device)
            self.model(input_ids=token_ids_RL, use_cache=False, logits_to_keep=1)
        return calls


def block_list(model: nn.Module) -> list[nn.Module]:
    """The M transformer blocks, first to last.

    Raises:
        InvalidInputError: the model has no list of as many modules as its config has hidden layers, or no head; or a
            position of it reads what stands after it.
    """
    config = model.config
    if getattr(config, "use_bidirectional_attention", False) or not getattr(config, "is_causal", True):
        raise InvalidInputError(f"this {config.model_type} model looks ahead, so it is no causal language model")
    count = getattr(config, "num_hidden_layers", None)
    lists = [part for part in model.modules() if isinstance(part, nn.ModuleList) and len(part) == count]
    if not lists or model.get_output_embeddings() is None:
        raise InvalidInputError(f"a {type(model).__name__} has no list of {count} blocks with a head after it")
    return list(lists[0])


def is_adapter(name: str) -> bool:
    """Is the parameter of that name a number of an adapter?"""
    return ".lora_A." in name or ".lora_B." in name


def fingerprint_of(named_parameters: Iterable[tuple[str, Tensor]]) -> str:
    """SHA-256 of every parameter's bits, by name."""
    digest = hashlib.sha256()
    for name, parameter in sorted(named_parameters):
        digest.update(f"{name} {parameter.dtype} {tuple(parameter.shape)}\n".encode())
        digest.update(parameter.detach().contiguous().cpu().view(torch.uint8).numpy())
    return digest.hexdigest()


def _flattened(parameters: Sequence[nn.Parameter]) -> Tensor:
    """One vector of which the parameters become views."""
    flat = torch.cat([parameter.data.reshape(-1) for parameter in parameters])
    start = 0
    for parameter in parameters:
        parameter.data = flat[start : start + parameter.numel()].view(parameter.shape)
        start += parameter.numel()
    return flat


@contextlib.contextmanager
def _replaced_forward(modules: Sequence[nn.Module], stand_ins: Sequence[Callable[..., Any]]) -> Iterator[None]:
    """Within the context these functions are called in place of the modules' own forward passes."""
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
