"""A client's copy of the model: the base, moved through every round's average. No weight ever crosses the wire.

Server, survivors and late joiners all apply the same averages in the same order with the same code, so their weights
have the same bits (on processors that round alike; the fingerprints that they exchange show it).

Shapes: M blocks, Q directions, R rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from transformers import PreTrainedTokenizerBase

from zorba_core.data.divide import divide
from zorba_core.data.encode import encode, with_label_words
from zorba_core.data.load import load
from zorba_core.data.task import Task
from zorba_core.engine.aggregation import update_blocks
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.directions import directions_of
from zorba_core.engine.methods.registry import method_of
from zorba_core.engine.round import FederatedRows, RoundContext
from zorba_core.engine.rows import Rows
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError
from zorba_core.federation.config import RunConfig
from zorba_core.federation.local_files import local_rows
from zorba_core.federation.messages import Aggregate, MessageError, RoundAnswer, RoundTask
from zorba_core.runs.load import open_network, use_threads
from zorba_core.runs.token_range import check_tokens


class Replica:
    """The model as a client holds it after ``round`` rounds."""

    def __init__(
        self, network: Blocks, tokenizer: PreTrainedTokenizerBase, settings: Settings, threads: int = 1
    ) -> None:
        """``network`` holds the base model."""
        self.threads = threads
        self.network, self.tokenizer, self.settings, self.round = network, tokenizer, settings, 0
        self.base_sha256 = network.weights_sha256()
        self.directions = directions_of(network, settings)

    @torch.no_grad()
    def apply(self, averages: Sequence[Aggregate]) -> None:
        """Move the weights through the rounds that they have not seen; those already applied are skipped.

        Raises:
            MessageError: a round is missing between the replica's and the first one, or they are not of this model.
        """
        new = tuple(average for average in averages if average.round > self.round)
        for expected, average in enumerate(new, start=self.round + 1):
            if average.round != expected:
                raise MessageError(
                    f"averages continue at round {average.round} and the replica stands at {expected - 1}"
                )
            if average.rho_bar_MQ.shape[0] != self.network.num_blocks:
                raise MessageError(
                    f"averages are for {average.rho_bar_MQ.shape[0]} blocks, the model has {self.network.num_blocks}"
                )
        for average in new:
            with use_threads(self.threads):
                update_blocks(self.network, average.rho_bar_MQ, average.seeds_Q, self.directions, average.lr)
            self.round = average.round

    def report(self, task: RoundTask, seat: int, rows: Rows) -> RoundAnswer:
        """The scalars of the task's round of the client with these rows; no weight is changed.

        Raises:
            MessageError: the replica does not stand at the round before, or a block is not of this model.
        """
        if self.round != task.round - 1:
            raise MessageError(
                f"round {task.round} starts from {task.round - 1} and the replica stands at {self.round}"
            )
        if max(task.blocks) >= self.network.num_blocks:
            raise MessageError(f"block {max(task.blocks)} is not one of the model's {self.network.num_blocks}")
        # As the client of the same number in a run within one process: it draws its batches, and only it is asked.
        clients = seat + 1
        A_MN, asked_N = np.zeros((self.network.num_blocks, clients), dtype=bool), np.zeros(clients, dtype=bool)
        A_MN[list(task.blocks), seat] = asked_N[seat] = True
        context = RoundContext(
            task.round,
            0.0,  # a client reports and does not step
            task.seeds_Q,
            asked_N,
            self.network,
            A_MN,
            FederatedRows(rows, {seat: np.arange(len(rows))}, rows),
            self.settings,
            self.directions,
        )
        with use_threads(self.threads):
            reports = method_of(self.settings).report(context)
        return RoundAnswer(
            task.run, seat, task.round, reports.rho_NQ[seat], float(reports.loss_N[seat]), reports.forward_passes
        )

    def fingerprint(self) -> str:
        return self.network.weights_sha256()


def open_replica(config: RunConfig, model: str | None = None, threads: int = 1) -> Replica:
    """The replica at round 0, which is the same for every client.

    Args:
        model: the base model's folder or name on this machine; None takes the config's name.

    Raises:
        InvalidInputError, MissingDataError: the model is missing or does not fit.
    """
    with use_threads(threads):
        network, tokenizer = open_network(model or config.model, config.settings)
        return Replica(network, tokenizer, config.settings, threads)


def open_rows(config: RunConfig, seat: int, replica: Replica, rows: str | None = None) -> Rows:
    """A client's rows as tokens.

    Args:
        rows: a file with this client's own rows, of the columns that the task reads; None takes the seat's share of a
            built-in dataset, divided as a run within one process divides it.

    Raises:
        InvalidInputError, MissingDataError: the rows are missing or do not fit.
    """
    if not seat < config.num_clients:
        raise InvalidInputError(f"seat is {seat}; this run has the seats 0 to {config.num_clients - 1}")
    task = with_label_words(config.described_task(), config.label_words or None)
    encoded = encode(task, _own_rows(config, task, seat, rows), replica.tokenizer, config.settings.seq_len)
    check_tokens(replica.network, replica.tokenizer, encoded)
    return encoded


def _own_rows(config: RunConfig, task: Task, seat: int, rows: str | None) -> pd.DataFrame:
    if rows is not None:
        return local_rows(task, rows)
    if config.task:
        raise InvalidInputError("this client's operator has not named the file with its rows (rows)")
    frame = load(task, "federated")
    return frame.iloc[divide(frame, config.num_clients, config.alpha, config.settings.seed, config.division)[seat]]
