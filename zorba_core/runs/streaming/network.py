"""A network whose blocks stay in files: it holds one block, the embedding rows in use and the label words' head rows.

To everything that uses a network it is a :class:`zorba_core.engine.network.BlockNetwork`, with two differences: asking
for a block's weights or running it brings that block into memory in place of the one before, and what is written into
its weights is forgotten with it. Only :meth:`StreamedNetwork.change_block` changes a block to stay.

The model's modules are built without weights. The parameters of a block are views into its numbers while it is in
memory and NaN, without memory, while it is not.

Shapes: B rows, L positions, H hidden size, M blocks, D_m parameters of block m, U different tokens.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

from zorba_core.engine.families import ADAPTERS, OWN_FORWARD, attention_of, family_of
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.row_kinds import Rows
from zorba_core.errors import InvalidInputError

if TYPE_CHECKING:
    from zorba_core.runs.streaming.limit import MemoryLimit
from zorba_core.runs.streaming.store import BlockStore, Change
from zorba_core.runs.streaming.tensor_files import SINGLE, TensorFiles, write_tensors

BLOCKS = "blocks"  # the folder of a run for blocks that were changed
_KEPT_ROWS = 64  # of the head: those of a task's label words are asked for again and again


def skeleton(config: PretrainedConfig) -> PreTrainedModel:
    """The model of a config with its modules and buffers, and parameters that have a shape and no memory."""

    def without_memory(module: nn.Module, name: str, parameter: nn.Parameter | None) -> nn.Parameter | None:
        if parameter is None or parameter.device.type == "meta":
            return None  # stays as it is, so that a tied head stays the embedding's own parameter
        return nn.Parameter(parameter.to("meta"), requires_grad=False)

    hook = register_module_parameter_registration_hook(without_memory)
    try:
        return AutoModelForCausalLM.from_config(copy.deepcopy(config), dtype=torch.float32).eval()
    finally:
        hook.remove()


class StreamedNetwork(BlockNetwork):
    """A model that stays in its files.

    Args:
        model: of :func:`skeleton`; it is taken over.
        files: its weights.
        prefetch: read the next block while one computes, which takes the memory of one more.
        hidden_bytes: most memory for hidden states that wait while another's turn with a block is; None: no limit.
        watch: called at every visit of a block; it may end the run.

    Raises:
        InvalidInputError: the files lack a weight, or it has another shape; a family that is not known to be right.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        files: TensorFiles,
        label_ids: Sequence[int],
        *,
        dtype: torch.dtype = torch.float32,
        precision: str = "highest",
        prefetch: bool = True,
        hidden_bytes: int | None = None,
        watch: Callable[[], None] = lambda: None,
    ) -> None:
        if model.config.model_type not in {*ADAPTERS, *OWN_FORWARD}:
            raise InvalidInputError(
                f"model type {model.config.model_type!r} cannot be read block by block; supported are "
                f"{', '.join([*ADAPTERS, *OWN_FORWARD])}; leave the memory limit out"
            )
        model.set_attn_implementation(attention_of(model))
        self.model, self.device, self.precision = model, torch.device("cpu"), precision
        self.dtype = self.kept_dtype = dtype
        self._copies = self.adapted = None
        self.hidden_bytes, self._files = hidden_bytes, files
        self.limit: MemoryLimit | None = None  # that the run keeps to
        self._label_ids, self._without_weights = torch.as_tensor(label_ids, dtype=torch.long), None
        self._shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}  # a tied head has no own name
        self._stored = {name: _name_in(files, name, shape, model) for name, shape in self._shapes.items()}
        name_of = {id(parameter): name for name, parameter in model.named_parameters()}
        read_by_row = [model.get_input_embeddings(), model.get_output_embeddings()]
        names_of_rows = [name_of[id(module.weight)] for module in read_by_row]
        self._family = family_of(model)
        self._blocks = self._family.blocks()
        self._names_M = [[name_of[id(parameter)] for parameter in block.parameters()] for block in self._blocks]
        in_blocks = {name for names in self._names_M for name in names}
        for module in list(model.modules()):
            for name, parameter in list(module._parameters.items()):
                if parameter is not None:
                    full = name_of[id(parameter)]
                    waits = full in in_blocks or full in names_of_rows
                    module._parameters[name] = _parameter(
                        _nothing(parameter.shape, dtype, math.nan) if waits else self._whole(full)
                    )
        model.to(dtype=dtype)  # buffers
        _read_rows(read_by_row[0], lambda index_U: files.rows(self._stored[names_of_rows[0]], index_U, dtype))
        head = read_by_row[1]
        del head.weight
        head.weight = _HeadRows(files, self._stored[names_of_rows[1]], dtype)
        self._store = BlockStore(
            files,
            [[(self._stored[name], math.prod(self._shapes[name])) for name in names] for names in self._names_M],
            dtype,
            prefetch=prefetch,
            watch=watch,
        )
        self._resident: int | None = None
        self._weights: Tensor | None = None
        self._aside: Tensor | None = None  # memory for a block's weights while they are moved
        self._put_aside = False  # are the resident block's weights there?

    @property
    def sizes_M(self) -> tuple[int, ...]:
        return self._store.sizes_M

    @property
    def shapes_M(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        return tuple(tuple(self._shapes[name] for name in names) for names in self._names_M)

    @property
    def store(self) -> BlockStore:
        return self._store

    def block_weights(self, block: int) -> Tensor:
        """w_m, (D_m,), until another block is asked for; what is written there is forgotten then."""
        self._bring(block)
        return self._weights

    def block_module(self, block: int) -> nn.Module:
        self._bring(block)
        return self._blocks[block]

    @contextlib.contextmanager
    def moving(self, blocks: Iterable[int]) -> Iterator[dict[int, Tensor]]:
        blocks = list(blocks)
        if len(blocks) > 1:
            raise InvalidInputError("a model that stays in its files has one block in memory at a time")
        if not blocks:
            yield {}
            return
        weights = self.block_weights(blocks[0])
        if self._aside is None:
            self._aside = torch.empty(max(self.sizes_M), dtype=self.dtype)
        if not self._put_aside:  # once for all directions of a visit
            self._aside[: len(weights)].copy_(weights)
            self._put_aside = True
        try:
            yield {blocks[0]: weights}
        finally:
            if self._resident == blocks[0]:
                weights.copy_(self._aside[: len(weights)])

    def change_block(self, block: int, change: Change) -> None:
        """``change`` moves w_m in place when the block is read next."""
        if self._resident == block:
            self.release()
        self._store.change(block, change)

    def release(self) -> None:
        """Hold no block. What was written into one is forgotten."""
        if self._resident is not None:
            for parameter in self._blocks[self._resident].parameters():
                parameter.data = _nothing(parameter.shape, self.dtype, math.nan)
            self._store.give_back(self._weights)
        self._resident = self._weights = self._aside = None  # an update of the next block takes as much
        self._put_aside = False

    def outputs(self, batches: Iterable[Rows]) -> Iterator[tuple[Rows, Tensor]]:
        """As many batches as ``hidden_bytes`` allows go through a block before the next block is read."""
        together: list[Rows] = []
        held, width = 0, self._hidden_size * self.dtype.itemsize
        for batch in batches:
            size = batch.token_ids_RL.numel() * width
            if together and self.hidden_bytes is not None and held + size > self.hidden_bytes:
                yield from self._through_blocks(together)
                together, held = [], 0
            together.append(batch)
            held += size
        yield from self._through_blocks(together)

    @torch.no_grad()
    def _through_blocks(self, batches: list[Rows]) -> Iterator[tuple[Rows, Tensor]]:
        hidden = [self.embed_rows(batch) for batch in batches]
        for m in range(self.num_blocks):
            for place, batch in enumerate(batches):
                if m == self.num_blocks - 1:
                    hidden[place] = batch.after_last_block(self, hidden[place])
                else:
                    hidden[place] = self.run_rows(m, hidden[place], batch)
        yield from zip(batches, hidden, strict=True)

    def weights_sha256(self) -> str:
        digest = hashlib.sha256()
        with self._store.in_order(self._order_of(sorted(self._shapes))):
            for name in sorted(self._shapes):
                digest.update(f"{name} {self.dtype} {self._shapes[name]}\n".encode())
                for piece in self._numbers(name):
                    digest.update(piece.view(torch.uint8).numpy())
        return digest.hexdigest()

    def save(self, folder: str | os.PathLike[str]) -> str:
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        config = copy.deepcopy(self.model.config)
        config.dtype, config.architectures = self.dtype, [type(self.model).__name__]
        config.save_pretrained(folder)
        if self.model.can_generate():
            self.model.generation_config.save_pretrained(folder)
        with self._store.in_order(self._order_of(self._shapes)):
            pieces = (piece for name in self._shapes for piece in self._numbers(name))
            write_tensors(folder / SINGLE, self._shapes, self.dtype, pieces)
        return self.weights_sha256()

    @property
    def _hidden_size(self) -> int:
        return int(self.model.config.hidden_size)

    def _bring(self, block: int) -> None:
        if self._resident == block:
            return
        self.release()
        self._weights, self._resident, start = self._store.take(block), block, 0
        for parameter in self._blocks[block].parameters():
            parameter.data = self._weights[start : start + parameter.numel()].view(parameter.shape)
            start += parameter.numel()

    def _zeroed_block(self) -> nn.Module:
        if self._resident == 0:
            self.release()  # a copy of its weights is not wanted
        block = copy.deepcopy(self._blocks[0])
        for parameter in block.parameters():
            parameter.data = _nothing(parameter.shape, self.dtype, 0.0)
        return block

    def _whole(self, name: str) -> Tensor:
        values = torch.empty(math.prod(self._shapes[name]), dtype=self.dtype)
        self._files.read_into(self._stored[name], values)
        return values.view(self._shapes[name])

    def _order_of(self, names: Iterable[str]) -> list[int]:
        """The blocks in the order in which the names come to them."""
        block_of = {name: m for m, own in enumerate(self._names_M) for name in own}
        return list(dict.fromkeys(block_of[name] for name in names if name in block_of))

    def _numbers(self, name: str) -> Iterator[Tensor]:
        """A parameter's numbers as they are now, in pieces of a vector."""
        for m, names in enumerate(self._names_M):
            if name in names:
                start = sum(math.prod(self._shapes[before]) for before in names[: names.index(name)])
                yield self.block_weights(m)[start : start + math.prod(self._shapes[name])]
                return
        yield from self._files.pieces(self._stored[name], self.dtype)


class _HeadRows:
    """Stands for the head's weight where only rows of it are asked for: ``weight[token_ids]``."""

    def __init__(self, files: TensorFiles, name: str, dtype: torch.dtype) -> None:
        self._files, self._name, self._dtype = files, name, dtype
        self.shape, self.device = torch.Size(files.shape(name)), torch.device("cpu")
        self._kept: tuple[list[int], Tensor] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, token_ids_U: Tensor) -> Tensor:
        if self._kept is None or self._kept[0] != token_ids_U.tolist():
            rows_UH = self._files.rows(self._name, token_ids_U, self._dtype)
            if len(token_ids_U) > _KEPT_ROWS:
                return rows_UH
            self._kept = token_ids_U.tolist(), rows_UH
        return self._kept[1]


def _read_rows(embedding: nn.Embedding, rows_of: Callable[[Tensor], Tensor]) -> None:
    """Let an embedding look its tokens up among the rows that are read for them."""
    own_forward, embedding.padding_idx = embedding.forward, None  # which only gradients heed

    def forward(token_ids: Tensor) -> Tensor:
        token_ids_U, place = token_ids.unique(return_inverse=True)
        waiting = embedding._parameters["weight"]
        embedding._parameters["weight"] = _parameter(rows_of(token_ids_U))
        try:
            return own_forward(place)
        finally:
            embedding._parameters["weight"] = waiting

    embedding.forward = forward


def _nothing(shape: Sequence[int], dtype: torch.dtype, value: float) -> Tensor:
    """A tensor of one value and without memory."""
    return torch.full((), value, dtype=dtype).expand(*shape)


def _parameter(values: Tensor) -> nn.Parameter:
    return nn.Parameter(values, requires_grad=False)


def _name_in(files: TensorFiles, name: str, shape: tuple[int, ...], model: PreTrainedModel) -> str:
    """A parameter's name in the files: its own, that of the model without its head, or GPT-NeoX's for a head."""
    without_head = name.removeprefix(f"{model.base_model_prefix}.")
    for stored in (name, without_head, name.replace("lm_head.", "embed_out.")):
        if stored in files:
            if files.shape(stored) != shape:
                raise InvalidInputError(
                    f"the model's files have {stored} of shape {files.shape(stored)} and its config asks for {shape}"
                )
            return stored
    raise InvalidInputError(
        f"the model's files have no {name}; save the model with save_pretrained, or leave the memory limit out"
    )
