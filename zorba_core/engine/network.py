"""A Hugging Face causal language model seen as the paper sees it: embed | M transformer blocks | head.

Only the blocks are fine-tuned. Embeddings, final norm and head keep their weights, and the head is computed only where
an answer is read: full-vocabulary logits would be by far the largest tensor. Where all answers are single label words,
it is computed for those words alone.

Rows are padded on the right. Attention is causal, so what stands behind the positions that are read cannot reach them
and no attention mask is needed.

Shapes: B rows, L positions, P positions read of each row, H hidden size, C label words, M blocks, D_m parameters of
block m, S hidden states, V vocabulary rows.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from zorba_core.engine.adapters import fingerprint_of, is_adapter
from zorba_core.engine.families import Family, LabelPositions, attention_of, family_of
from zorba_core.engine.precision import products_in
from zorba_core.engine.row_kinds import Rows

if TYPE_CHECKING:
    from peft import PeftModel

Inactive = Literal["frozen", "dropped"]
# From so many rows on, a float32 matrix product on the CPU rounds a row the same whatever rows are beside it (MKL).
SAME_BITS_ROWS = 16


class BlockNetwork:
    """The model as blocks whose weights are one flat vector each.

    The parameters of block m become views into ``block_weights(m)``: what is written there is what the block computes
    with. ``model`` is taken over (moved, set to evaluation mode), not copied. ``precision`` is that of the products
    within blocks (:mod:`zorba_core.engine.precision`).

    Of a model with adapters (:func:`zorba_core.engine.adapters.with_adapters`), ``block_weights(m)`` are those of block
    m alone; the blocks' own weights stay.

    Raises:
        InvalidInputError: as :func:`zorba_core.engine.families.family_of`.
    """

    def __init__(
        self,
        model: PreTrainedModel | PeftModel,
        label_ids: Sequence[int],
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        precision: str = "highest",
    ) -> None:
        self.adapted = None if isinstance(model, PreTrainedModel) else model
        model = model if self.adapted is None else self.adapted.get_base_model()
        model.set_attn_implementation(attention_of(model))
        self.dtype, self.device, self.precision = dtype, torch.device(device), precision
        self.model = model.to(device=device, dtype=dtype).eval().requires_grad_(False)
        self._family: Family = family_of(self.model)
        self._blocks: list[nn.Module] = self._family.blocks()
        self._weights_M = [_flatten(list(self.block_parameters(m).values())) for m in range(len(self._blocks))]
        self._label_ids = torch.as_tensor(label_ids, dtype=torch.long, device=self.device)
        self._without_weights: nn.Module | None = None

    @property
    def num_blocks(self) -> int:
        return len(self._blocks)

    @property
    def label_count(self) -> int:
        """C, the label words that :meth:`head` computes."""
        return len(self._label_ids)

    @property
    def max_positions(self) -> int:
        """Of a row; ALiBi (Bloom) sets no limit."""
        return int(getattr(self.model.config, "max_position_embeddings", None) or 2**31)

    @property
    def sizes_M(self) -> tuple[int, ...]:
        """Parameters of each block."""
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

    @torch.no_grad()
    def copy_to_blocks(self, weights_M: Sequence[Tensor]) -> None:
        """w_m becomes a copy of ``weights_M[m]``, for every block."""
        for own, weights in zip(self._weights_M, weights_M, strict=True):
            own.copy_(weights)

    def block_module(self, block: int) -> nn.Module:
        """Block m as the model's own module."""
        return self._blocks[block]

    def block_parameters(self, block: int) -> dict[str, nn.Parameter]:
        """What is trained of block m, by name within its module: in order, the parts of ``block_weights(m)``."""
        named = self._blocks[block].named_parameters()
        return {name: parameter for name, parameter in named if not self.has_adapters or is_adapter(name)}

    @contextlib.contextmanager
    def moving(self, blocks: Iterable[int]) -> Iterator[dict[int, Tensor]]:
        """Within the context, the weights of those blocks, (D_m,) each: to be written to. Afterwards the blocks have
        exactly the bits of before."""
        weights_by_block = {m: self._weights_M[m] for m in blocks}
        original = {m: weights.clone() for m, weights in weights_by_block.items()}
        try:
            yield weights_by_block
        finally:
            for m, weights in weights_by_block.items():
                weights.copy_(original[m])

    @contextlib.contextmanager
    def at_precision(self, precision: str) -> Iterator[None]:
        """Within the context, products of that precision instead of the network's own."""
        before, self.precision = self.precision, precision
        try:
            yield
        finally:
            self.precision = before

    def embed(self, token_ids_BL: Tensor) -> Tensor:
        """Hidden states before the first block, shape (B, L, H)."""
        return self._family.embed(token_ids_BL)

    def run_block(self, block: int, hidden_BLH: Tensor) -> Tensor:
        """Hidden states after block m with its current weights."""
        with products_in(self.precision, self.device):
            return self._family.run(self.block_module(block), hidden_BLH)

    def run_last_block(self, hidden_BLH: Tensor, read_B: Tensor) -> Tensor:
        """Hidden states (B, H) after the last block at the position of each row that the head reads, or (B, P, H) at
        its several positions (B, P): of other positions nothing but keys and values is computed."""
        # A product of fewer rows than 16 takes another routine and rounds differently; rows are repeated up to that.
        read_BP = read_B if read_B.ndim == 2 else read_B[:, None]
        at = LabelPositions(read_BP, hidden_BLH.shape[1], SAME_BITS_ROWS)
        with products_in(self.precision, self.device):
            hidden_RPH = self._family.run_at(self.block_module(self.num_blocks - 1), hidden_BLH, at)[: len(read_B)]
        return hidden_RPH if read_B.ndim == 2 else hidden_RPH[:, 0]

    def run_block_without_weights(self, hidden_BLH: Tensor) -> Tensor:
        """What a block with all weights zero (a_mn w_m with a_mn = 0) makes of its input.

        Where the norm comes before attention (OPT-125M, GPT-2, Llama), both branches add zero and the block is the
        identity. Where it comes after (OPT-350M), the zeroed norm writes zeros over everything: the text is lost.
        """
        if self._family.residual_passes_through:
            return hidden_BLH
        if self._without_weights is None:
            self._without_weights = self._zeroed_block()
        return self._family.run(self._without_weights, hidden_BLH)

    def _zeroed_block(self) -> nn.Module:
        block = copy.deepcopy(self._blocks[0])
        for parameter in block.parameters():
            parameter.zero_()
        return block

    def head(self, hidden_BH: Tensor) -> Tensor:
        """Logits of the label words, (B, C), float64, from what :meth:`run_last_block` returns."""
        return self._family.logits(hidden_BH, self._label_ids)

    @property
    def vocabulary_size(self) -> int:
        return len(self.model.get_output_embeddings().weight)

    def vocabulary_logits(self, hidden_SH: Tensor, token_ids_V: Tensor) -> Tensor:
        """Logits of any tokens, (S, V), float64. (:mod:`zorba_core.engine.vocabulary` goes through all, in pieces.)"""
        return self._family.logits(hidden_SH, token_ids_V)

    @torch.no_grad()
    def __call__(self, rows: Rows, active_M: Sequence[bool] | None = None, inactive: Inactive = "frozen") -> Tensor:
        """What the loss and the prediction of ``rows`` read of the last block's output: (B, H), or (B, P, H).

        With ``inactive="dropped"`` the blocks outside ``active_M`` run without weights; with ``"frozen"`` (and when
        ``active_M`` is not given) every block runs with its weights.
        """
        hidden_BLH = self.embed(rows.token_ids_RL)
        for m in range(self.num_blocks):
            if inactive == "dropped" and active_M is not None and not active_M[m]:
                hidden_BLH = self.run_block_without_weights(hidden_BLH)
            elif m == self.num_blocks - 1:
                return rows.after_last_block(self, hidden_BLH)
            else:
                hidden_BLH = self.run_block(m, hidden_BLH)
        return rows.read(hidden_BLH)

    def weights_sha256(self) -> str:
        """Fingerprint of every parameter's bits, by name: equal exactly when two models are."""
        return fingerprint_of(self.model.named_parameters())


def _flatten(parameters: Sequence[nn.Parameter]) -> Tensor:
    """Move a block's parameters into one vector and let each parameter be a view of its part."""
    flat, start = torch.cat([parameter.data.reshape(-1) for parameter in parameters]), 0
    for parameter in parameters:
        parameter.data = flat[start : start + parameter.numel()].view(parameter.shape)
        start += parameter.numel()
    return flat
