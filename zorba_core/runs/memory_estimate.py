"""The memory that forward-only training needs, counted without running it.

The paper's model of a client (``zorba_core.planning.memory``) is psi_md + k psi_block, with
psi_block = (alpha + 3K + 1) B L H numbers for each of its k activated blocks. It over-counts in two ways:

- 3K BLH is for Q, K and V of all K heads. The heads share H among them, so Q, K and V together are 3 BLH numbers.
- Without a backward pass nothing of a block is kept once the next one has its input: the peak holds the tensors of one
  block, whatever k. What k costs is arithmetic.

Beside the parameters, a forward-only client holds its hidden state, the working tensors of one block, and one block's
weights put aside while that block is perturbed. OPT-125M at B=8, L=128, float32, all 12 blocks active, in MiB:

    psi            477.2 + 12 x 123.0 = 1953.2
    counted here   477.8 + 27.0 for one block's weights + 21.0 for hidden states and one block's tensors = 525.8

So of the 1476 MiB that psi gives to activations, forward passes need 21. Measured, for the same sizes, a process that
plays one such client grew by 64 MiB above the loaded model in a round, with 1, 4, 8 or 12 active blocks alike
(artifacts/benchmarks/memory.json), where psi charges 123 to 1476.

The count runs the forward pass on fake tensors: shapes without data, each storage counted once, from its making to its
freeing, in units of 512 bytes. What kernels allocate inside themselves is not seen, and a process grows by more.

Shapes: M blocks, N clients, B rows of a client, R rows of all, L positions, H hidden size.
"""

from __future__ import annotations

import functools
import json
import weakref
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM, PretrainedConfig

from zorba_core.engine.adapters import is_adapter, with_adapters
from zorba_core.engine.estimators.exact import ExactPlan, held_at_once
from zorba_core.engine.estimators.registry import ESTIMATORS
from zorba_core.engine.evaluation import BATCH_SIZE as EVALUATION_ROWS
from zorba_core.engine.families import Family, LabelPositions, attention_of, family_of
from zorba_core.engine.precision import products_in
from zorba_core.engine.settings import TrainSettings
from zorba_core.engine.vocabulary import STATES_AT_ONCE, piece_rows
from zorba_core.planning.answers import LABEL_WORDS, AnswerShape
from zorba_core.planning.lora import Lora

_GRAIN = 512  # bytes that storages are rounded up to
_JVP_COPIES = 3  # of the plain pass's tensors; 2.8 were counted on an OPT
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


def client_peak(
    config: PretrainedConfig,
    *,
    batch_size: int,
    seq_len: int,
    dtype: torch.dtype,
    answers: AnswerShape = LABEL_WORDS,
    lora: Lora | None = None,
) -> PeakEstimate:
    """One client on a device of its own, B rows of L tokens, perturbing block after block. It is the same for one
    activated block as for all. Evaluating is the server's, and an update can go piece by piece."""
    return replace(
        _shapes(config.to_json_string(), type(config), dtype, lora).peak(
            rows=batch_size * answers.rows, seq_len=seq_len, answers=answers
        ),
        update=0,
        evaluation=0,
    )


def gradient_peak(
    config: PretrainedConfig,
    *,
    rows: int,
    seq_len: int,
    dtype: torch.dtype,
    answers: AnswerShape = LABEL_WORDS,
    lora: Lora | None = None,
) -> PeakEstimate:
    """A first-order client (FedIT), or a cohort of them: one forward and backward pass of ``rows`` rows of L tokens.
    ``activations`` has what the backward pass keeps of every block, and the blocks' gradients."""
    shapes = _shapes(config.to_json_string(), type(config), dtype, lora)
    return PeakEstimate(shapes.parameter_bytes, 0, shapes.backward(rows * answers.rows, seq_len, answers), 0, 0)


def run_peak(
    config: PretrainedConfig,
    A_MN: np.ndarray,
    settings: TrainSettings,
    *,
    rows_at_once: int,
    answers: AnswerShape = LABEL_WORDS,
) -> PeakEstimate:
    """A process that simulates all clients of the allocation the way ``settings.estimator`` does.

    ``rows_at_once``: of a cohort, through a block together (``cohort.rows_at_once`` knows).
    """
    shapes = _shapes(config.to_json_string(), type(config), settings.torch_dtype, settings.lora)
    B, L = settings.batch_size * answers.rows, settings.seq_len
    estimator = ESTIMATORS[settings.estimator]
    if estimator.backward:
        return _backward_peak(shapes, int(config.hidden_size), A_MN, settings, answers)
    if estimator.cohort:
        rows = B * max(1, round(A_MN.shape[1] * settings.participation))
        at_once = min(rows_at_once, settings.max_rows or rows)
        return shapes.peak(
            rows,
            L,
            at_once=at_once,
            kept_states=1,
            evaluation_rows=settings.eval_rows,
            precision=settings.precision,
            answers=answers,
        )
    single = shapes.peak(B, L, evaluation_rows=settings.eval_rows, precision=settings.precision, answers=answers)
    block_M = np.array(shapes.block_bytes)
    if estimator.exact:  # the directions of all blocks; each tensor, its derivative, and what makes it
        perturbation = int(block_M.sum())
        activations = _JVP_COPIES * shapes.peak(B, L, plain_attention=True, answers=answers).activations
    else:  # the directions of all blocks, and the weights of the heaviest client's
        perturbation, activations = int(block_M.sum() + (block_M @ A_MN).max()), single.activations
    return PeakEstimate(single.parameters, perturbation, activations, single.update, single.evaluation)


def _backward_peak(
    shapes: _Shapes, width: int, A_MN: np.ndarray, settings: TrainSettings, answers: AnswerShape
) -> PeakEstimate:
    """Exact scalars: the gradients of a share of the clients, and a few directions of a block; what the backward pass
    keeps of the rows that go through the blocks together."""
    B, L, bytes_each = settings.batch_size * answers.rows, settings.seq_len, settings.torch_dtype.itemsize
    on_cpu = settings.device == "cpu"
    participants = max(1, round(A_MN.shape[1] * settings.participation))
    heaviest = np.argsort(-A_MN.sum(axis=0), kind="stable")[:participants]
    plan = ExactPlan.of(
        [size // bytes_each for size in shapes.block_bytes],
        width,
        bytes_each,
        np.full((participants, 2), (B, L)),
        A_MN[:, heaviest],
        on_cpu=on_cpu,
        max_rows=settings.max_rows,
    )
    block_parameters = max(shapes.block_bytes) // bytes_each
    held = plan.held - plan.freed + held_at_once(block_parameters, settings.num_perturbations, on_cpu=on_cpu)
    rows = min(plan.rows_at_once(B, L), B * max(map(len, plan.shares)))
    kept = shapes.kept(rows, L, settings.precision, answers)
    plain = shapes.peak(B, L, evaluation_rows=settings.eval_rows, answers=answers)
    return PeakEstimate(plain.parameters, held * bytes_each, kept, plain.update, plain.evaluation)


@functools.lru_cache(maxsize=2)
def _shapes(config_json: str, kind: type[PretrainedConfig], dtype: torch.dtype, lora: Lora | None) -> _Shapes:
    """Its own copy of the config: building a model writes into it. Kept, since building takes longer than counting."""
    return _Shapes(kind.from_dict(json.loads(config_json)), dtype, lora)


class _Shapes:
    """A model without data."""

    def __init__(self, config: PretrainedConfig, dtype: torch.dtype, lora: Lora | None) -> None:
        self._fake = FakeTensorMode()
        # Weights kept in 16 bits are computed with in 32 (zorba_core.engine.wide_copies): a block's copy in 32 bits
        # takes the place of its weights put aside.
        narrow = dtype == torch.bfloat16
        dtype = torch.float32 if narrow else dtype
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
            self._vocabulary = len(self._model.get_output_embeddings().weight)
        storages = {p.untyped_storage()._cdata: p.untyped_storage().nbytes() for p in self._model.parameters()}
        self.parameter_bytes = sum(_rounded(size // 2 if narrow else size) for size in storages.values())
        self._trained_M = [
            [p for name, p in block.named_parameters() if lora is None or is_adapter(name)]
            for block in self._family.blocks()
        ]
        self.block_bytes = [sum(p.numel() * p.element_size() for p in trained) for trained in self._trained_M]
        self._evaluated_block = max(self.block_bytes) if narrow else 0

    def peak(
        self,
        rows: int,
        seq_len: int,
        *,
        at_once: int | None = None,
        kept_states: int = 0,
        evaluation_rows: int | None = None,
        plain_attention: bool = False,
        precision: str = "highest",
        answers: AnswerShape = LABEL_WORDS,
    ) -> PeakEstimate:
        largest = max(self.block_bytes)
        judged = min(EVALUATION_ROWS, evaluation_rows or EVALUATION_ROWS)
        return PeakEstimate(
            parameters=self.parameter_bytes,
            perturbation=largest,
            activations=self._forward(rows, seq_len, at_once or rows, kept_states, plain_attention, precision, answers),
            update=2 * largest,
            evaluation=self._evaluated_block + self._forward(judged, seq_len, judged, 0, False, "highest", answers),
        )

    @functools.cache  # noqa: B019 - kept as long as the shapes are, which _shapes bounds
    def _forward(
        self,
        rows: int,
        seq_len: int,
        at_once: int,
        kept_states: int,
        plain_attention: bool,
        precision: str,
        answers: AnswerShape,
    ) -> int:
        """Peak bytes of a forward pass of R rows, of which some at a time go through a block."""
        kernels = [SDPBackend.MATH] if plain_attention else [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
        with self._fake, TensorBytes() as count, torch.no_grad(), sdpa_kernel(kernels):
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
    def backward(self, rows: int, seq_len: int, answers: AnswerShape) -> int:
        """Peak bytes of a forward and backward pass of R rows, all in one batch."""
        parameters = [parameter for trained in self._trained_M for parameter in trained]
        kernels = [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
        try:
            for parameter in parameters:
                parameter.requires_grad_(True)
            with self._fake, TensorBytes() as count, torch.enable_grad(), sdpa_kernel(kernels):
                hidden_RLH = self._family.embed(torch.zeros(rows, seq_len, dtype=torch.long))
                for block in self._family.blocks():
                    hidden_RLH = self._family.run(block, hidden_RLH)
                states_SH = self._read(hidden_RLH, answers)
                # Backward keeps the logits of every piece of the vocabulary.
                loss = self._loss(states_SH, self._vocabulary if answers.whole_vocabulary else _LABELS).sum()
                del hidden_RLH, states_SH
                torch.autograd.grad(loss, parameters)
        finally:
            for parameter in parameters:
                parameter.requires_grad_(False)
        return count.peak

    @functools.cache  # noqa: B019 - as above
    def kept(self, rows: int, seq_len: int, precision: str, answers: AnswerShape) -> int:
        """Peak bytes of a pass of R rows forward and back to their hidden states, the last block where answers are."""
        kernels = [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
        with self._fake, TensorBytes() as count, torch.enable_grad(), sdpa_kernel(kernels):
            first_RLH = self._family.embed(torch.zeros(rows, seq_len, dtype=torch.long)).requires_grad_(True)
            hidden_RLH, blocks = first_RLH, self._family.blocks()
            with products_in(precision, first_RLH.device):
                for block in blocks[:-1]:
                    hidden_RLH = self._family.run(block, hidden_RLH)
                positions = min(answers.positions, seq_len)
                at = LabelPositions(torch.zeros(rows, positions, dtype=torch.long), seq_len)
                last_SH = self._family.run_at(blocks[-1], hidden_RLH, at).flatten(0, 1)
            loss = self._of_every_word(last_SH) if answers.whole_vocabulary else self._loss(last_SH, _LABELS).sum()
            del hidden_RLH, last_SH
            torch.autograd.grad(loss, first_RLH)
        return count.peak

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


class TensorBytes(TorchDispatchMode):
    """Counts the bytes of tensors made within the context, while they live: ``now``, and the most at once, ``peak``."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._alive: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        inputs = {
            leaf.untyped_storage()._cdata for leaf in tree_leaves((args, kwargs or {})) if isinstance(leaf, Tensor)
        }
        made = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            # A view of what existed before the context is not new.
            if isinstance(leaf, Tensor) and leaf.untyped_storage()._cdata not in inputs:
                self._count(leaf.untyped_storage())
        return made

    def _count(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self._alive:
            return
        size = _rounded(storage.nbytes())
        self._alive.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._free, key, size)

    def _free(self, key: int, size: int) -> None:
        self._alive.discard(key)
        self.now -= size


def _rounded(size: int) -> int:
    return -(-size // _GRAIN) * _GRAIN
