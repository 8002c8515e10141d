"""What a task, a model and what is trained of it need in memory, known before the run: counted, not measured.

Shapes: M blocks, N clients, B rows of a client, L positions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zorba_core.data.encoding import encode
from zorba_core.data.sources import CLIENTS_SPLIT
from zorba_core.data.splits import load_split
from zorba_core.data.tasks import Task
from zorba_core.engine.estimators.registry import ESTIMATORS
from zorba_core.engine.row_kinds import answer_shape
from zorba_core.engine.settings import TrainSettings
from zorba_core.planning.answers import AnswerShape
from zorba_core.planning.byte_sizes import in_mib
from zorba_core.planning.methods import method_facts
from zorba_core.runs.fake_passes import PeakEstimate
from zorba_core.runs.memory_estimate import client_peak, gradient_peak, run_peak

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedTokenizerBase

_LOOKED_AT = 2_000  # rows, for the longest answers


def answers_of(task: Task, tokenizer: PreTrainedTokenizerBase, seq_len: int) -> AnswerShape:
    """What the answers of the task's rows ask of a pass, by the first of them.

    Raises:
        InvalidInputError, MissingDataError: rows that no run could train on.
    """
    return answer_shape(encode(task, load_split(task, CLIENTS_SPLIT).head(_LOOKED_AT), tokenizer, seq_len))


def client_needs(config: PretrainedConfig, settings: TrainSettings, answers: AnswerShape) -> PeakEstimate:
    """One client on a device of its own."""
    B, L = settings.batch_size, settings.seq_len
    common = {"seq_len": L, "dtype": settings.torch_dtype, "answers": answers, "lora": settings.lora}
    if method_facts(settings.method).first_order:
        return gradient_peak(config, rows=B, **common)
    return client_peak(config, batch_size=B, **common)


def process_needs(
    config: PretrainedConfig, A_MN: np.ndarray, settings: TrainSettings, answers: AnswerShape, rows_at_once: int
) -> PeakEstimate:
    """A process that plays all clients of the allocation. ``rows_at_once``: as for :func:`run_peak`."""
    if not method_facts(settings.method).first_order:
        return run_peak(config, A_MN, settings, rows_at_once=rows_at_once, answers=answers)
    participants = max(1, round(A_MN.shape[1] * settings.participation))
    rows = settings.batch_size * (participants if ESTIMATORS[settings.estimator].cohort else 1)
    return gradient_peak(
        config,
        rows=min(rows, settings.max_rows or rows),
        seq_len=settings.seq_len,
        dtype=settings.torch_dtype,
        answers=answers,
        lora=settings.lora,
        on_cuda=settings.device == "cuda",
    )


def in_words(client: PeakEstimate, process: PeakEstimate | None = None, num_clients: int = 0) -> str:
    """One line: the model, what a round adds to it, and the process that plays all clients."""
    line = (
        f"memory, counted: {in_mib(client.parameters)} for the model, {in_mib(client.total - client.parameters)} more "
        "for a client's round"
    )
    if process is None:
        return line
    return f"{line}; {in_mib(process.total)} in all for this process, which plays {num_clients} clients"
