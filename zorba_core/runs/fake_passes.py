"""Passes through a model on fake tensors, shapes without data, and the most bytes that they hold at once.

Shapes: B rows, R rows of all, L positions, H hidden size, S positions read of all rows, P positions read of a row.
"""

from __future__ import annotations

import functools
import json
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AutoModelForCausalLM, PretrainedConfig

from zorba_core.engine.adapters import is_adapter, with_adapters
from zorba_core.engine.directions import PIECE_ELSEWHERE
from zorba_core.engine.evaluation import BATCH_SIZE as EVALUATION_ROWS
from zorba_core.engine.families import Family, LabelPositions, attention_of, family_of
from zorba_core.engine.precision import products_in
from zorba_core.planning.answers import LABEL_WORDS, STATES_AT_ONCE, AnswerShape, piece_rows
from zorba_core.planning.lora import Lora
from zorba_core.runs.tensor_bytes import TensorBytes, rounded

_LABELS = 4  # label words; a few numbers a row


@dataclass(frozen=True)
class PeakEstimate:
    """Bytes on one device, by what they are for. Estimating, updating and evaluating follow each other."""

    parameters: int
    perturbation: int  # while estimating: noise drawn ahead, and weights put aside while they are perturbed
    activations: int  # while estimating: hidden states kept, and the working tensors of one block
    update: int  # while updating: one block's step and, at most, the direction added to it
    evaluation: int  # while evaluating: hidden states, the working tensors of one block, and its copy in 32 bits

    @property
    def total(self) -> int:
        """The peak."""
        return self.parameters + max(self.perturbation + self.activations, self.update, self.evaluation)

    def describe(self) -> dict[str, int]:
        return {**asdict(self), "total": self.total}


@functools.lru_cache(maxsize=2)
def passes_of(
    config_json: str, kind: type[PretrainedConfig], dtype: torch.dtype, lora: Lora | None, *, on_cuda: bool = False
) -> FakePasses:
    """Its own copy of the config: building a model writes into it. Kept, since building takes longer than counting."""
    return FakePasses(kind.from_dict(json.loads(config_json)), dtype, lora, on_cuda=on_cuda)


class FakePasses:
    """A model without data. ``on_cuda``: its blocks run as on a CUDA device."""

    def __init__(
        self, config: PretrainedConfig, dtype: torch.dtype, lora: Lora | None, *, on_cuda: bool = False
    ) -> None:
        self._fake = FakeTensorMode()
        # Weights kept in 16 bits are computed with in 32 (zorba_core.engine.wide_copies): a block's copy in 32 bits
        # takes the place of its weights put aside.
        self.narrow, self._on_cuda = dtype == torch.bfloat16, on_cuda
        dtype = torch.float32 if self.narrow else dtype
        # PEFT moves modules about, which fake tensors do not allow and those of the meta device do.
        with self._fake if lora is None else torch.device("meta"), torch.no_grad():
            model = AutoModelForCausalLM.from_config(config, dtype=dtype)
            model.set_attn_implementation(attention_of(model))
            if lora is not None:
                with_adapters(model, lora, seed=0)
        with self._fake, torch.no_grad():
            if lora is not None:
                _fill(model, dtype)
            self._model = model.eval()
            self._family: Family = family_of(self._model)
            if on_cuda and getattr(self._family, "can_join", False):
                self._family.joins = True
            self._state_bytes = int(config.hidden_size) * dtype.itemsize  # of a position
            self._vocabulary = len(self._model.get_output_embeddings().weight)
        heads = getattr(config, "num_attention_heads", 0)
        self._wide, self._shares_keys = dtype == torch.float64, getattr(config, "num_key_value_heads", heads) != heads
        storages = {p.untyped_storage()._cdata: p.untyped_storage().nbytes() for p in self._model.parameters()}
        self.parameter_bytes = sum(rounded(size // 2 if self.narrow else size) for size in storages.values())
        self._trained_M = [
            [p for name, p in block.named_parameters() if lora is None or is_adapter(name)]
            for block in self._family.blocks()
        ]
        self.block_bytes = [sum(p.numel() * p.element_size() for p in trained) for trained in self._trained_M]

    def peak(
        self,
        rows: int,
        seq_len: int,
        *,
        at_once: int | None = None,
        moved: int | None = None,
        together: int = 0,
        kept_states: int = 0,
        evaluation_rows: int | None = None,
        plain_attention: bool = False,
        precision: str = "highest",
        answers: AnswerShape = LABEL_WORDS,
    ) -> PeakEstimate:
        """Args:
        at_once, moved: rows through a block together at most, default all; of them, while its weights are moved.
        together: directions in one batch along which no weight is moved; 0 where weights are.
        kept_states: hidden states of all rows beside the one that goes through.
        evaluation_rows: 0 where nobody evaluates; None for as many as an evaluation takes.
        """
        largest, evaluation = max(self.block_bytes), 0
        if evaluation_rows != 0:
            judged = min(EVALUATION_ROWS, evaluation_rows or EVALUATION_ROWS)
            evaluation = (largest if self.narrow else 0) + self._forward(judged, seq_len, judged, 0, answers=answers)
        at_once = min(at_once or rows, rows)
        moved = min(at_once, moved or rows)
        count = functools.partial(
            self._forward, seq_len=seq_len, plain_attention=plain_attention, precision=precision, answers=answers
        )
        base = count(rows, at_once=at_once, kept_states=kept_states)
        if together:  # each direction's states of all rows beside the base's
            states = (1 + kept_states + together) * rows * seq_len * self._state_bytes
            activations = max(base, states + count(together * moved, at_once=together * moved, kept_states=0))
        else:  # a block of the base pass is not put aside, but is copied to 32 bits
            at_base = base if self.narrow else base - largest
            activations = max(at_base, count(rows, at_once=moved, kept_states=kept_states))
        return PeakEstimate(
            parameters=self.parameter_bytes,
            perturbation=0 if together and not self.narrow else largest,
            activations=activations,
            update=largest + self._beside_a_step(largest),
            evaluation=evaluation,
        )

    def _beside_a_step(self, largest: int) -> int:
        """The direction added to it; on a GPU a piece of two matrices' directions, or of what rounding to 16 bits
        makes (the weights moved, random bits, their sum and its upper half) and a block's copy that is kept."""
        if not self._on_cuda:
            return largest
        if self.narrow:
            return 7 * min(largest, 2**24) // 2 + largest
        return min(2 * largest // 3, 4 * PIECE_ELSEWHERE)

    @functools.cache  # noqa: B019 - kept as long as the shapes are, which passes_of bounds
    def _forward(
        self,
        rows: int,
        seq_len: int,
        at_once: int,
        kept_states: int,
        plain_attention: bool = False,
        precision: str = "highest",
        *,
        answers: AnswerShape,
    ) -> int:
        """Peak bytes of a forward pass of R rows, of which some at a time go through a block."""
        with self._fake, TensorBytes() as count, torch.no_grad(), self._attention(precision, plain=plain_attention):
            hidden_RLH = self._family.embed(torch.zeros(rows, seq_len, dtype=torch.long))
            states = [torch.empty_like(hidden_RLH) for _ in range(kept_states)]
            for block in self._family.blocks():
                with products_in(precision, hidden_RLH.device):
                    passed_RLH = self._family.run(block, hidden_RLH[:at_once])
                if at_once >= rows:
                    hidden_RLH = passed_RLH
                else:
                    hidden_RLH[:at_once] = passed_RLH
                del passed_RLH
            states_SH = self._read(hidden_RLH, answers)
            pieces = min(piece_rows(*states_SH.shape), self._vocabulary) if answers.whole_vocabulary else _LABELS
            self._loss(states_SH[:STATES_AT_ONCE], pieces)
            del states
        return count.peak

    @functools.cache  # noqa: B019 - as above
    def backward(
        self,
        rows: int,
        seq_len: int,
        answers: AnswerShape,
        precision: str = "highest",
        *,
        to_weights: bool = True,
        last_in_full: bool = False,
    ) -> int:
        """Peak bytes of a pass of R rows forward and back, all in one batch: to the weights, or to the hidden states
        before the first block. The last block is computed where answers are, or ``last_in_full``."""
        weights = [parameter for trained in self._trained_M for parameter in trained] if to_weights else []
        try:
            for parameter in weights:
                parameter.requires_grad_(True)
            with self._fake, TensorBytes() as count, torch.enable_grad(), self._attention(precision):
                hidden_RLH = self._family.embed(torch.zeros(rows, seq_len, dtype=torch.long))
                wanted, blocks = weights or [hidden_RLH.requires_grad_(True)], self._family.blocks()
                with products_in(precision, hidden_RLH.device):
                    for block in blocks[:-1]:
                        hidden_RLH = self._family.run(block, hidden_RLH)
                    if last_in_full:
                        last_SH = self._read(self._family.run(blocks[-1], hidden_RLH), answers)
                    else:
                        positions = min(answers.positions, seq_len)
                        at = LabelPositions(torch.zeros(rows, positions, dtype=torch.long), seq_len)
                        last_SH = self._family.run_at(blocks[-1], hidden_RLH, at).flatten(0, 1)
                loss = self._of_every_word(last_SH) if answers.whole_vocabulary else self._loss(last_SH, _LABELS).sum()
                del hidden_RLH, last_SH
                torch.autograd.grad(loss, wanted)
        finally:
            for parameter in weights:
                parameter.requires_grad_(False)
        return count.peak

    def _attention(self, precision: str, *, plain: bool = False) -> AbstractContextManager:
        """The kernels that are there: no fused one of a GPU takes 64 bits, or heads that share keys in 32."""
        alone = plain or (self._on_cuda and (self._wide or (self._shares_keys and precision != "bf16")))
        return sdpa_kernel([SDPBackend.MATH] if alone else [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])

    def _read(self, hidden_RLH: Tensor, answers: AnswerShape) -> Tensor:
        """Hidden states where an answer is read, all rows below each other."""
        rows, length, _ = hidden_RLH.shape
        read = min(answers.positions, length)
        at_RP = torch.zeros(rows, read, dtype=torch.long)
        return hidden_RLH[torch.arange(rows)[:, None], at_RP].flatten(0, 1)

    def _of_every_word(self, states_SH: Tensor) -> Tensor:
        """As :func:`zorba_core.engine.vocabulary.log_probabilities`: backward keeps the logits of every piece."""
        first_S = torch.zeros(len(states_SH), dtype=torch.long)
        loss = states_SH.new_zeros((), dtype=torch.float64)
        for tokens in torch.empty(self._vocabulary, dtype=torch.long).split(piece_rows(*states_SH.shape)):
            logits = self._family.logits(states_SH, torch.zeros(len(tokens), dtype=torch.long))
            loss = loss + logits.logsumexp(dim=1).sum() - logits[first_S, first_S].sum()
        return loss

    def _loss(self, states_SH: Tensor, tokens: int) -> Tensor:
        logits = self._family.logits(states_SH, torch.zeros(tokens, dtype=torch.long))
        return F.cross_entropy(logits.double(), torch.zeros(len(states_SH), dtype=torch.long), reduction="none")


def _fill(model: nn.Module, dtype: torch.dtype) -> None:
    """A tensor of the mode around it in place of each of the meta device; tied ones stay tied."""
    made: dict[Tensor, Tensor] = {}
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is None:
                    continue
                if tensor not in made:
                    kind = dtype if tensor.is_floating_point() else tensor.dtype
                    filled = torch.empty(tensor.shape, dtype=kind, device="cpu")
                    made[tensor] = nn.Parameter(filled, False) if isinstance(tensor, nn.Parameter) else filled
                tensors[name] = made[tensor]
