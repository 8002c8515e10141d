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

from dataclasses import replace

import numpy as np
import torch
from transformers import PretrainedConfig

from zorba_core.engine.direction_kinds import DIRECTIONS
from zorba_core.engine.directions import PIECE_ELSEWHERE
from zorba_core.engine.estimators.registry import ESTIMATORS
from zorba_core.engine.settings import TrainSettings
from zorba_core.planning.answers import LABEL_WORDS, AnswerShape
from zorba_core.planning.engine_load import LEAST_WIDTH_ALONG
from zorba_core.planning.gradient_plan import DIRECTIONS_AT_ONCE, PIECE_TOGETHER, GradientPlan, Widths
from zorba_core.planning.lora import Lora
from zorba_core.runs.fake_passes import FakePasses, PeakEstimate, passes_of

_JVP_COPIES = 3  # of the plain pass's tensors; 2.8 were counted on an OPT, 2.4 to 2.6 measured on an H100


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
        passes_of(config.to_json_string(), type(config), dtype, lora).peak(
            rows=batch_size * answers.rows, seq_len=seq_len, evaluation_rows=0, answers=answers
        ),
        update=0,
    )


def gradient_peak(
    config: PretrainedConfig,
    *,
    rows: int,
    seq_len: int,
    dtype: torch.dtype,
    answers: AnswerShape = LABEL_WORDS,
    lora: Lora | None = None,
    on_cuda: bool = False,
) -> PeakEstimate:
    """A first-order client (FedIT), or a cohort of them: one forward and backward pass of ``rows`` rows of L tokens.
    ``activations`` has what the backward pass keeps of every block, and the blocks' gradients; ``perturbation`` their
    sum, with a copy in 32 bits of weights that are kept in 16."""
    shapes = passes_of(config.to_json_string(), type(config), dtype, lora, on_cuda=on_cuda)
    gradients, largest = sum(shapes.block_bytes), max(shapes.block_bytes)
    activations = max(shapes.backward(rows * answers.rows, seq_len, answers), gradients + largest)
    return PeakEstimate(shapes.parameter_bytes, gradients * (2 if shapes.narrow else 1), activations, 0, 0)


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
    on_cuda = settings.device == "cuda"
    shapes = passes_of(config.to_json_string(), type(config), settings.torch_dtype, settings.lora, on_cuda=on_cuda)
    B, L = settings.batch_size * answers.rows, settings.seq_len
    estimator = ESTIMATORS[settings.estimator]
    if estimator.backward:
        return _backward_peak(shapes, config, A_MN, settings, answers)
    if estimator.cohort:
        clients = max(1, round(A_MN.shape[1] * settings.participation))
        together = _directions_at_once(settings, B * clients, rows_at_once, int(config.hidden_size))
        through_M = A_MN.sum(axis=1)
        if together:  # also those who have come to a block and do not activate it; of the last one few positions
            passing_MN = np.logical_or.accumulate(A_MN) & ~A_MN
            through_M = np.maximum(through_M, passing_MN.sum(axis=1))[: max(1, len(A_MN) - 1)]
        return shapes.peak(
            B * clients,
            L,
            at_once=min(rows_at_once, settings.max_rows or rows_at_once),
            moved=B * min(int(through_M.max()), clients),
            together=together,
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
    shapes: FakePasses, config: PretrainedConfig, A_MN: np.ndarray, settings: TrainSettings, answers: AnswerShape
) -> PeakEstimate:
    """Exact scalars: the gradients of a share of the clients, and a few directions of a block; what the backward pass
    keeps of the rows that go through the blocks together."""
    B, L = settings.batch_size * answers.rows, settings.seq_len
    bytes_each = max(
        settings.torch_dtype.itemsize, torch.float32.itemsize
    )  # weights of 16 bits are computed with in 32
    on_cpu = settings.device == "cpu"
    participants = max(1, round(A_MN.shape[1] * settings.participation))
    heaviest = np.argsort(-A_MN.sum(axis=0), kind="stable")[:participants]
    plan = GradientPlan.of(
        [size // bytes_each for size in shapes.block_bytes],
        Widths.of_config(config.to_dict(), int(config.hidden_size), L),
        bytes_each,
        np.full((participants, 2), (B, L)),
        A_MN[:, heaviest],
        num_directions=settings.num_perturbations,
        signs=DIRECTIONS[settings.direction].signs,
        on_cpu=on_cpu,
        max_rows=settings.max_rows,
    )
    block_parameters = max(shapes.block_bytes) // bytes_each
    held = plan.held + _directions_held(block_parameters, settings.num_perturbations, on_cpu=on_cpu)
    rows = min(plan.rows_at_once(B, L), B * max(map(len, plan.shares)))
    kept = shapes.backward(rows, L, answers, settings.precision, to_weights=False)
    plain = shapes.peak(B, L, evaluation_rows=settings.eval_rows, answers=answers)
    numbers = settings.num_perturbations * sum(shapes.block_bytes) // bytes_each
    bits = plan.kept_bits(numbers, signs=DIRECTIONS[settings.direction].signs) if on_cpu else 0
    copies = sum(shapes.block_bytes) if shapes.narrow else 0  # of all blocks in 32 bits
    return PeakEstimate(plain.parameters, held * bytes_each + bits + copies, kept, plain.update, plain.evaluation)


def _directions_held(block_parameters: int, num_directions: int, *, on_cpu: bool) -> int:
    """Numbers of directions that exact scalars hold at once, at most."""
    count = min(num_directions, DIRECTIONS_AT_ONCE)
    return min(block_parameters * count, PIECE_TOGETHER) if on_cpu else min(block_parameters, PIECE_ELSEWHERE) * count


def _directions_at_once(settings: TrainSettings, rows: int, rows_at_once: int, hidden: int) -> int:
    """Low-rank directions that share a batch of all rows; 0 where weights are moved (engine.along)."""
    if not DIRECTIONS[settings.direction].low_rank or (settings.device == "cpu" and hidden < LEAST_WIDTH_ALONG):
        return 0
    return min(settings.num_perturbations, max(1, (settings.max_rows or rows_at_once) // rows))
