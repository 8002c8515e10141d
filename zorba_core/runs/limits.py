"""Requests that this machine cannot serve, refused before anything of their size is allocated.

Memory is counted as a run's summary counts it (:mod:`zorba_core.runs.memory_estimate`), and compared with what the
machine can still give; the message has the batch size that would do. Time is a lower bound: the multiply-adds of all
rounds at a rate that no core exceeds. A run that needs more than a day even so is refused unless it is forced.

Shapes: M blocks, N clients, B rows of a client, L positions, Q directions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zorba_core.allocation import AllocationMetrics
from zorba_core.engine.estimators.cohort import rows_at_once
from zorba_core.engine.estimators.registry import ESTIMATORS
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.rounds import FederatedRows
from zorba_core.engine.row_kinds import answer_shape
from zorba_core.engine.settings import TrainSettings
from zorba_core.errors import InvalidInputError
from zorba_core.planning.memory import GIB
from zorba_core.planning.methods import method_facts
from zorba_core.runs.memory_estimate import client_peak, gradient_peak, run_peak
from zorba_core.runs.streaming.limit import available_bytes

_JVP_COPIES = 3  # of a client's tensors: the check before the first round takes exact derivatives of a batch
_SMALL = 16  # a request whose rough count is that many times below what is there needs no closer look
_NUMBERS_A_POSITION = 40  # roughly, of hidden size, that the widest block and the kept states hold
_MOST_FLOPS = 1e11  # a second and thread, float32: what the fastest cores reach at best
_DAY = 86_400.0


def check_limits(
    network: BlockNetwork,
    allocation: AllocationMetrics,
    rows: FederatedRows,
    settings: TrainSettings,
    *,
    force: bool,
    available: Callable[[], int | None] = available_bytes,
) -> None:
    """
    Raises:
        InvalidInputError: the run does not fit the machine's memory, or, unless forced, a day; names what would do.
    """
    if settings.device != "cpu":
        return
    most_bytes = available()
    if settings.memory_limit is None and most_bytes is not None:
        _check_memory(network, allocation, rows, settings, most_bytes)
    if not force:
        _check_time(network, allocation, settings)


def _check_memory(
    network: BlockNetwork, allocation: AllocationMetrics, rows: FederatedRows, settings: TrainSettings, available: int
) -> None:
    config, answers = network.model.config, answer_shape(rows.evaluation)
    width = int(getattr(config, "hidden_size", 0) or 1)
    positions = settings.batch_size * answers.rows * settings.seq_len * allocation.num_clients
    if positions * width * _NUMBERS_A_POSITION * 4 * _SMALL < available:
        return

    def peak_bytes(batch_size: int) -> int:
        asked = replace(settings, batch_size=batch_size)
        shape = {"seq_len": asked.seq_len, "dtype": asked.torch_dtype, "answers": answers, "lora": asked.lora}
        if method_facts(asked.method).first_order:
            participants = max(1, round(allocation.num_clients * asked.participation))
            together = participants if ESTIMATORS[asked.estimator].cohort else 1
            count = min(batch_size * together, asked.max_rows or batch_size * together)
            return gradient_peak(config, rows=count, **shape).total
        run = run_peak(
            config, allocation.A_MN, asked, rows_at_once=rows_at_once(network, asked.seq_len), answers=answers
        )
        one = client_peak(config, batch_size=batch_size, **shape)
        return max(run.total, one.parameters + _JVP_COPIES * one.activations)

    needed = peak_bytes(settings.batch_size)
    if needed <= available:
        return
    fits, too_many = 0, settings.batch_size
    while too_many - fits > max(1, fits // 16):  # to a sixteenth
        tried = (fits + too_many) // 2
        fits, too_many = (tried, too_many) if peak_bytes(tried) <= available else (fits, tried)
    cure = f"give --batch-size {fits} or less" if fits else "give a smaller model, fewer clients or a --memory-limit"
    raise InvalidInputError(
        f"batch_size is {settings.batch_size}: the run would hold {needed / GIB:,.1f} GiB at once and this machine has "
        f"{available / GIB:,.1f} GiB left; {cure}"
    )


def _check_time(network: BlockNetwork, allocation: AllocationMetrics, settings: TrainSettings) -> None:
    participants = max(1, round(allocation.num_clients * settings.participation))
    active = allocation.A_MN.sum() / allocation.A_MN.size  # at least these blocks are computed anew for a direction
    passes = 1 + max(settings.num_perturbations, 1) * float(active)
    flops = 2.0 * sum(network.sizes_M) * settings.batch_size * participants * passes * settings.rounds
    # Rows may be far shorter than seq_len; a row has at least a few positions.
    seconds = flops * min(settings.seq_len, 4) / (_MOST_FLOPS * settings.threads)
    if seconds > _DAY:
        fits = max(1, int(settings.batch_size * settings.rounds * _DAY / seconds))
        raise InvalidInputError(
            f"{settings.rounds} rounds of batch_size {settings.batch_size} take at least {seconds / _DAY:,.1f} days "
            f"here; rounds times batch_size of at most {fits:,} would fit in one. To continue anyway: --force"
        )
