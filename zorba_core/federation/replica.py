"""A client's copy of the model: the base, moved through every round's average. No weight ever crosses the wire.

Server, survivors and late joiners all apply the same averages in the same order with the same code, so their weights
have the same bits (on processors that round alike; the fingerprints that they exchange show it).

Shapes: M blocks, Q directions, C labels.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from zorba_core.data.divide import divide
from zorba_core.data.encode import encode
from zorba_core.data.load import load
from zorba_core.data.own_rows import labelled_rows
from zorba_core.data.task import TableRows
from zorba_core.data.task import Task as DataTask
from zorba_core.engine.aggregation import update_blocks
from zorba_core.engine.directions import directions_of
from zorba_core.engine.evaluation import evaluate, label_prior
from zorba_core.engine.parts import method_of
from zorba_core.engine.round import FederatedRows, RoundContext
from zorba_core.engine.rows import Rows
from zorba_core.errors import InvalidInputError, ZorbaError
from zorba_core.federation.protocol import Average, ProtocolError, Task
from zorba_core.federation.request import Terms
from zorba_core.runs.folder import task_of
from zorba_core.runs.load import check_tokens, open_network, prior_rows, with_data
from zorba_core.runs.models import BUNDLED


class Replica:
    """The model of a run at some round of one of its lines."""

    def __init__(self, terms: Terms, model: str | None, device: str = "cpu") -> None:
        """
        Raises:
            InvalidInputError, MissingDataError: the base model is missing here, or does not fit the run.
        """
        if model is None and terms.model not in BUNDLED:
            raise InvalidInputError("this client's operator has not set the folder of the base model (model)")
        self.settings = terms.settings.replace(device=device)
        self.network, self.tokenizer = open_network(model or terms.model, self.settings)
        self.base_sha256 = self.network.weights_sha256()
        self.directions = directions_of(self.network, self.settings)
        self.line, self.round = 0, 0
        self._base_M: list[Tensor] | None = None  # from the first trial until the run's own rounds begin

    def follow(self, task: Task) -> None:
        """Move the weights through the task's averages; those already applied are skipped.

        Raises:
            ProtocolError: a round is missing before the first one, or they are not of this model.
        """
        if task.line != self.line:
            self._begin(task.line, task.start)
        for average in task.averages:
            if average.round > self.round:
                self._apply(average)

    def _begin(self, line: int, start: int) -> None:
        """Back to the base model."""
        if self.line == 0 and self.round:
            raise ProtocolError(f"the run stands at round {self.round} and is over trials of a learning rate")
        if self._base_M is None:
            self._base_M = [self.network.block_weights(m).clone() for m in range(self.network.num_blocks)]
        self.network.copy_to_blocks(self._base_M)
        self.line, self.round = line, start
        if line == 0:
            self._base_M = None

    @torch.no_grad()
    def _apply(self, average: Average) -> None:
        if average.round != self.round + 1:
            raise ProtocolError(f"averages continue at round {average.round} and the replica stands at {self.round}")
        blocks = average.rho_bar_MQ.shape[0]
        if blocks != self.network.num_blocks:
            raise ProtocolError(f"averages are for {blocks} blocks and the model has {self.network.num_blocks}")
        update_blocks(self.network, average.rho_bar_MQ, average.seeds_Q, self.directions, average.lr)
        self.round = average.round


@dataclass(frozen=True)
class NodeConfig:
    """What a client's operator decides, in the SuperNode's ``--node-config``."""

    partition: int  # whose rows these are, 0 to N-1: partition-id
    rows: str | None = None  # the file with this client's own rows
    data: str | None = None  # or files of several clients' rows, of which it takes its part: a rehearsal
    model: str | None = None  # the base model's folder here; None: only a model that comes with this package
    blocks: int | None = None  # most blocks that it will activate
    device: str = "cpu"
    threads: int = 1

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> NodeConfig:
        """
        Raises:
            InvalidInputError: an unknown key, no partition-id, or a value of the wrong type.
        """
        kinds = {"rows": str, "data": str, "model": str, "blocks": int, "device": str, "threads": int}
        values = {name: value for name, value in config.items() if name not in ("partition-id", "num-partitions")}
        for name, value in values.items():
            if type(value) is not kinds.get(name):
                known = ", ".join(("partition-id", *kinds))
                raise InvalidInputError(f"--node-config: {name} is {value!r}; the keys are {known}")
        partition = config.get("partition-id")
        if type(partition) is not int or partition < 0:
            raise InvalidInputError(f"--node-config: partition-id is {partition!r}; give a whole number from 0 on")
        return cls(partition, **values)


class Client:
    """One client of a run: its rows, and the replica, which virtual clients of one process share."""

    def __init__(self, terms: Terms, own: NodeConfig, replica: Replica) -> None:
        """
        Raises:
            InvalidInputError, MissingDataError: its rows are missing, or do not fit the run's task.
        """
        if own.partition >= terms.clients:
            raise InvalidInputError(f"partition-id is {own.partition}; this run has 0 to {terms.clients - 1}")
        self.terms, self.own, self.replica = terms, own, replica
        task = task_of(terms.task)
        frame = _own_rows(terms, task, own)
        self.rows: Rows = encode(task, frame, replica.tokenizer, terms.settings.seq_len)
        check_tokens(replica.network, replica.tokenizer, self.rows)

    def label_prior(self) -> np.ndarray:
        """The base model's preference among the label words on this client's texts, (C,), float64."""
        return label_prior(self.replica.network, self.rows, prior_rows(self.terms.clients))

    def scalars(self, task: Task) -> tuple[np.ndarray, float, int]:
        """rho_Q and the loss of the task's round, and the forward passes that they took; no weight is changed.

        Raises:
            ProtocolError: the replica does not stand at the round before, or the blocks are not this client's to train.
        """
        replica, n = self.replica, self.own.partition
        if replica.round != task.round - 1:
            raise ProtocolError(
                f"round {task.round} starts from {task.round - 1} and the replica is at {replica.round}"
            )
        M = replica.network.num_blocks
        if not task.blocks or not all(0 <= m < M for m in task.blocks):
            raise ProtocolError(f"the blocks {list(task.blocks)[:8]} are not of a model of {M}")
        if self.own.blocks is not None and len(task.blocks) > self.own.blocks:
            raise ProtocolError(f"{len(task.blocks)} blocks are asked for, and its operator allows {self.own.blocks}")
        # As the client of the same number in a run within one process: it draws its batches, and only it is asked.
        A_MN, asked_N = np.zeros((M, n + 1), dtype=bool), np.zeros(n + 1, dtype=bool)
        A_MN[list(task.blocks), n] = asked_N[n] = True
        rows = self._with_prior(task)
        held = np.setdiff1d(np.arange(len(rows)), task.held_out)
        context = RoundContext(
            task.round,
            0.0,  # a client reports and does not step
            task.seeds_Q,
            asked_N,
            replica.network,
            A_MN,
            FederatedRows(rows, {n: held}, rows),
            replica.settings,
            replica.directions,
        )
        reports = method_of(replica.settings).report(context)
        return reports.rho_NQ[n], float(reports.loss_N[n]), reports.forward_passes

    def held_out_loss(self, task: Task) -> tuple[float, float]:
        """Sum of the losses over the rows held out, nats, and their weight."""
        some = self._with_prior(task).rows(np.array(task.held_out))
        weight = float(some.weights.sum())
        network = self.replica.network
        return evaluate(network, some, precision=network.precision).loss * weight, weight

    def _with_prior(self, task: Task) -> Rows:
        return replace(self.rows, prior_C=torch.tensor(task.prior_C, dtype=torch.float64))


def _own_rows(terms: Terms, task: DataTask, own: NodeConfig) -> pd.DataFrame:
    if own.rows is not None:
        return _of_file(task, own.rows)
    if isinstance(task.rows, TableRows):
        if own.data is None:
            raise InvalidInputError("this client's operator has not named the file with its rows (rows)")
        task = with_data(task, own.data, None if terms.splits else own.data)  # with rows to test on, all are trained on
    frame = load(task)
    return frame.iloc[divide(frame, terms.clients, terms.alpha, terms.settings.seed, terms.division)[own.partition]]


def _of_file(task: DataTask, path: str) -> pd.DataFrame:
    """All rows of a client's own file, as the run's task reads them. What is wrong with them is for their owner alone:
    the error goes to the server and quotes nothing of the rows."""
    try:
        return labelled_rows(task, path)
    except ZorbaError as error:
        logging.getLogger("zorba").warning("zorba: this client's rows do not fit the run's task: %s", error)
        raise InvalidInputError(
            f"this client's rows do not fit the task {task.name}; what is wrong, and where, is in the client's own log"
        ) from None
