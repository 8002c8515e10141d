"""Any causal language model of ``transformers`` whose blocks are called one after another: by its own forward pass.

Nothing of a family is written here again. The model's own forward pass, run once for each length with its blocks
standing aside, says what each block is given besides hidden states: masks (plain, of a sliding window, with ALiBi),
rotations of positions (of local and of global blocks), and what else. A block is then its own module, called with
these. The embedding is what the own forward pass hands to the first block.

The positions of the last block that are read are the block's own step of generation: a first call, stopped as soon as
the attention module hands its keys and values to a cache, and a second of those positions that finds them in it.

Shapes: B rows (R with repeats up to a least number), L positions, H hidden size, K heads, C label words,
P positions read of each row.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from transformers.models.bloom.modeling_bloom import BloomGelu, bloom_gelu_forward

from zorba_core.engine.families.interface import CachedKeys, LabelPositions, head_rows, rotation_at
from zorba_core.errors import InvalidInputError

_FINAL_NORMS = ("norm", "final_layernorm", "ln_f", "final_layer_norm", "final_norm", "norm_f")
_CACHES = ("past_key_values", "layer_past", "past_key_value")  # what blocks call the cache that they are given
_KEPT_NUMBERS = 2**26  # of masks and rotations, for all lengths together
_INDEX = "zorba_block_index"
_CONTAINERS = (Tensor, tuple, list, dict)  # of numbers, which may depend on places


class OwnForwardFamily:
    """The pieces of a model as its own forward pass uses them.

    Raises:
        InvalidInputError: there is no list of ``config.num_hidden_layers`` blocks, no final norm after them, or no
            linear head.
    """

    def __init__(self, model: nn.Module) -> None:
        self._body = model.base_model
        self._head = model.get_output_embeddings()
        self._blocks = _block_list(self._body, getattr(model.config, "num_hidden_layers", None))
        norms = [getattr(self._body, name) for name in _FINAL_NORMS if hasattr(self._body, name)]
        if self._blocks is None or len(norms) != 1 or not isinstance(self._head, nn.Linear):
            raise InvalidInputError(
                f"model type {model.config.model_type!r}: no list of {getattr(model.config, 'num_hidden_layers', '?')} "
                "blocks with one norm and a linear head after it, which a causal language model for text has"
            )
        if getattr(model.config, "use_bidirectional_attention", False) or not getattr(model.config, "is_causal", True):
            raise InvalidInputError(f"this {model.config.model_type!r} model looks ahead, so it is no language model")
        self._norm = norms[0]
        self._softcap: float | None = getattr(model.config, "final_logit_softcapping", None)
        self._signature = inspect.signature(self._blocks[0].forward)
        self._cache_name = next((name for name in _CACHES if name in self._signature.parameters), None)
        self._given: dict[tuple[int, torch.dtype], list[dict[str, Any]]] = {}  # by length and dtype, for each block
        for index, block in enumerate(self._blocks):
            setattr(block, _INDEX, index)  # a copy of a block is called as the block is
            for module in block.modules():
                if isinstance(module, BloomGelu):  # an autograd function without a forward derivative
                    module.forward = bloom_gelu_forward

    def blocks(self) -> list[nn.Module]:
        return list(self._blocks)

    def embed(self, token_ids_BL: Tensor) -> Tensor:
        def stop(hidden_BLH: Tensor, *_: Any, **__: Any) -> None:
            raise _Stopped(hidden_BLH)

        with _instead_of(self._blocks[:1], [stop]):
            try:
                self._body(input_ids=token_ids_BL, use_cache=False)
            except _Stopped as stopped:
                return stopped.value
        raise RuntimeError("the model's forward pass did not come to its first block")

    def run(self, block: nn.Module, hidden_BLH: Tensor) -> Tensor:
        given = self._given_to(block, hidden_BLH)
        return _hidden(block(hidden_BLH, **_for_rows(given, len(hidden_BLH))))

    def run_at(self, block: nn.Module, hidden_BLH: Tensor, at: LabelPositions) -> Tensor:
        given = self._given_to(block, hidden_BLH)
        given_at = _at(given, at)
        if given_at is None or self._cache_name is None:
            return at.pick(self.run(block, hidden_BLH))
        try:
            passed = block(hidden_BLH, **_for_rows(given, len(hidden_BLH)), **{self._cache_name: _StopAtKeys()})
        except _Stopped as stopped:
            cached = CachedKeys(*stopped.value, at)
            return _hidden(block(at.pick(hidden_BLH), **given_at, **{self._cache_name: cached}))
        return at.pick(_hidden(passed))  # it keeps no keys and values

    def logits(self, hidden_BH: Tensor, token_ids_C: Tensor) -> Tensor:
        logits_BC = head_rows(self._head, self._norm(hidden_BH), token_ids_C)
        return logits_BC if self._softcap is None else torch.tanh(logits_BC / self._softcap) * self._softcap

    @functools.cached_property
    def residual_passes_through(self) -> bool:
        block = self._blocks[0]
        some = next(block.parameters())
        hidden_1LH = self.embed(torch.zeros(1, 2, dtype=torch.long, device=some.device)) + 1
        zeros = {
            name: torch.zeros((), device=p.device, dtype=p.dtype).expand(p.shape)
            for name, p in block.named_parameters()
        }
        with torch.no_grad():
            passed = functional_call(block, zeros, (hidden_1LH,), self._given_to(block, hidden_1LH))
        return torch.equal(_hidden(passed), hidden_1LH)

    def _given_to(self, block: nn.Module, hidden_BLH: Tensor) -> dict[str, Any]:
        """What the own forward pass gives to the block besides hidden states, for one row of that length."""
        key = (hidden_BLH.shape[1], hidden_BLH.dtype)
        if key not in self._given:
            given = self._record(hidden_BLH.shape[1])
            if sum(_numbers(block_given) for kept in self._given.values() for block_given in kept) > _KEPT_NUMBERS:
                self._given.clear()
            self._given[key] = given
        return self._given[key][getattr(block, _INDEX)]

    @torch.no_grad()
    def _record(self, length: int) -> list[dict[str, Any]]:
        device = next(self._body.parameters()).device
        token_ids_1L = torch.zeros(1, length, dtype=torch.long, device=device)
        for in_tuple in (False, True):  # what a block returns differs by family; the first block alone tells it
            given: list[dict[str, Any]] = []

            def stand_aside(hidden_BLH: Tensor, *arguments: Any, _in_tuple: bool = in_tuple, **named: Any) -> Any:
                given.append(self._by_name(hidden_BLH, arguments, named))  # noqa: B023 - called in this pass only
                return (hidden_BLH, None) if _in_tuple else hidden_BLH

            with _instead_of(self._blocks, [stand_aside] * len(self._blocks)), contextlib.suppress(*_WRONG_SHAPE):
                self._body(input_ids=token_ids_1L, use_cache=False)
            if len(given) == len(self._blocks):
                return given
        raise RuntimeError("the model's forward pass did not come to every block once")

    def _by_name(self, hidden_BLH: Tensor, arguments: tuple, named: dict[str, Any]) -> dict[str, Any]:
        bound = self._signature.bind(hidden_BLH, *arguments, **named).arguments
        _, *rest = bound.items()
        by_name: dict[str, Any] = {}
        for name, value in rest:
            if self._signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                by_name |= value
            else:
                by_name[name] = value
        return {name: value for name, value in by_name.items() if name not in _CACHES}


_WRONG_SHAPE = (TypeError, ValueError, IndexError, RuntimeError, AttributeError)  # a tuple where a tensor was wanted


class _Stopped(Exception):
    """The part of a forward pass that was wanted is done."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class _StopAtKeys:
    """A cache that ends the pass with the keys and values (B, K, L, D) that it is given."""

    def update(self, key_BKLD: Tensor, value_BKLD: Tensor, *_: Any, **__: Any) -> None:
        raise _Stopped((key_BKLD, value_BKLD))


@contextlib.contextmanager
def _instead_of(modules: Sequence[nn.Module], forwards: Sequence[Callable[..., Any]]) -> Iterator[None]:
    """Within the context, other forward passes of the modules."""
    before = [vars(module).get("forward") for module in modules]
    try:
        for module, forward in zip(modules, forwards, strict=True):
            module.forward = forward
        yield
    finally:
        for module, own in zip(modules, before, strict=True):
            del module.forward
            if own is not None:
                module.forward = own


def _block_list(body: nn.Module, count: int | None) -> nn.ModuleList | None:
    lists = [child for child in body.children() if isinstance(child, nn.ModuleList) and len(child) == count]
    return lists[0] if len(lists) == 1 else None


def _hidden(returned: Any) -> Tensor:
    return returned[0] if isinstance(returned, tuple) else returned


def _for_rows(given: dict[str, Any], rows: int) -> dict[str, Any]:
    """ALiBi's numbers are wanted for each row; all else is for any number of rows."""
    alibi = given.get("alibi")
    return given if alibi is None else {**given, "alibi": _repeated(alibi, rows)}


def _repeated(alibi: Tensor, rows: int) -> Tensor:
    """(K, 1, L) -> (B * K, 1, L), Bloom's; (1, K, 1, L) -> (B, K, 1, L), Falcon's."""
    return alibi.repeat(rows, *[1] * (alibi.dim() - 1))


def _at(given: dict[str, Any], at: LabelPositions) -> dict[str, Any] | None:
    """What a block is given for the positions that are read; None where something of unknown meaning is given."""
    picked: dict[str, Any] = {}
    for name, value in given.items():
        if name == "attention_mask":
            # (1, 1 or K, L, L) -> (R, 1 or K, P, L)
            picked[name] = at.mask_R1PL if value is None else value[0, :, at.position_RP].transpose(0, 1)
        elif name == "alibi" and value is not None:
            picked[name] = _repeated(value, len(at.position_RP))
        elif name == "position_embeddings" and value is not None:
            picked[name] = rotation_at(value, at)
        elif name == "position_ids" and value is not None:
            picked[name] = at.position_RP
        elif isinstance(value, _CONTAINERS):
            return None
        else:
            picked[name] = value
    return picked


def _numbers(given: dict[str, Any]) -> int:
    return sum(value.numel() for value in given.values() if isinstance(value, Tensor))


def check_pieces(model: nn.Module, family: OwnForwardFamily) -> None:
    """Compare the pieces, in order, with the model's own forward pass on random tokens.

    Rows of one length are read at different positions, where the own forward pass is given the row up to there: this
    also holds only for a model that does not look ahead.

    Raises:
        InvalidInputError: they differ by more than rounding.
    """
    head = model.get_output_embeddings()
    device, vocabulary = head.weight.device, head.weight.shape[0]
    token_ids_BL = torch.randint(vocabulary, (3, 11), generator=torch.Generator().manual_seed(0)).to(device)
    last_B = torch.tensor([10, 4, 7], device=device)
    with torch.no_grad():
        own = [
            model(input_ids=row[None, : end + 1], use_cache=False).logits[0, -1]
            for row, end in zip(token_ids_BL, last_B, strict=True)
        ]
        own_BV = torch.stack(own).double()
        hidden_BLH = family.embed(token_ids_BL)
        for block in family.blocks()[:-1]:
            hidden_BLH = family.run(block, hidden_BLH)
        at, last = LabelPositions(last_B[:, None], hidden_BLH.shape[1]), family.blocks()[-1]
        whole_BPH, picked_BPH = at.pick(family.run(last, hidden_BLH)), family.run_at(last, hidden_BLH, at)
        every = torch.arange(vocabulary, device=device)
        size = float(own_BV.abs().max())
        apart = max(float((family.logits(x[:, 0], every) - own_BV).abs().max()) for x in (whole_BPH, picked_BPH))
    tolerance = {torch.float64: 1e-9, torch.float32: 1e-4}.get(hidden_BLH.dtype, 0.1)
    if not apart <= tolerance * max(size, 1e-3):
        raise InvalidInputError(
            f"model type {model.config.model_type!r} has no adapter, and its blocks called one by one differ from its "
            f"own forward pass by {apart:.1g} (logits up to {size:.1g})"
        )
