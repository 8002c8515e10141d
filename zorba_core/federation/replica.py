"""A client's copy of the model: the base model plus the average of every round. No weights are sent.

Server and clients apply the same averages in the same order with the same code, so their weights have the same bits on
processors that round alike. They compare hashes to verify it.

Shapes: M blocks, Q directions, C labels.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd
import torch

from zorba_core.data.divide import divide
from zorba_core.data.encode import RowsOnDemand
from zorba_core.data.load import load
from zorba_core.data.own_rows import labelled_rows
from zorba_core.data.task import TableRows, Task
from zorba_core.engine.directions import directions_of
from zorba_core.engine.evaluation import label_prior, prior_rows
from zorba_core.engine.methods.interface import method_of
from zorba_core.engine.round import FederatedRows, RoundPlan, client_batch
from zorba_core.engine.rows import Rows
from zorba_core.engine.update import update_blocks
from zorba_core.errors import InvalidInputError, ZorbaError
from zorba_core.federation.protocol import Average, Instruction, ProtocolError
from zorba_core.federation.request import Terms
from zorba_core.runs.load import SAMPLE, check_tokens, open_network, train_rows, with_data
from zorba_core.runs.models import BUNDLED
from zorba_core.runs.prompt import prompt_losses
from zorba_core.runs.request import task_of


class Replica:
    """The model of a run after ``round`` rounds of a line (:class:`zorba_core.federation.protocol.Line`)."""

    def __init__(self, terms: Terms, model: str | None, device: str = "cpu") -> None:
        """
        Raises:
            InvalidInputError, MissingDataError: the base model is missing here, or does not fit the run.
        """
        if model is None and terms.model not in BUNDLED:
            raise InvalidInputError("this client's operator has not set the folder of the base model (model)")
        self.settings, self._model = terms.settings.replace(device=device), model or terms.model
        self.network, self.tokenizer = open_network(self._model, self.settings)
        self.base_sha256 = self.network.weights_sha256()
        self.directions = directions_of(self.network, self.settings)
        self.line, self.round = 0, 0

    def follow(self, instruction: Instruction) -> None:
        """Apply the instruction's averages, except those already applied.

        Raises:
            ProtocolError: an average of an earlier round is missing, or the averages are of another model.
        """
        if instruction.line != self.line:
            if self.round:  # another line starts from the base model; loading it again needs no second copy in memory
                self.network, _ = open_network(self._model, self.settings)
            self.line, self.round = instruction.line, 0
        for average in instruction.averages:
            if average.round > self.round:
                self._apply(average)

    @torch.no_grad()
    def _apply(self, average: Average) -> None:
        if average.after != self.round:
            raise ProtocolError(
                f"the average of round {average.round} is for the weights after round {average.after}, and the replica "
                f"is at {self.round}"
            )
        blocks = average.rho_bar_MQ.shape[0]
        if blocks != self.network.num_blocks:
            raise ProtocolError(f"averages are for {blocks} blocks and the model has {self.network.num_blocks}")
        update_blocks(self.network, average.rho_bar_MQ, average.seeds_Q, self.directions, average.lr)
        self.round = average.round


@dataclass(frozen=True)
class NodeConfig:
    """The values that a client's operator sets in the SuperNode's ``--node-config``."""

    partition: int  # number of the client, 0 to N-1; the key is partition-id
    rows: str | None = None  # file with this client's rows
    data: str | None = None  # or a file with the rows of all clients, of which this client takes its part (for trials)
    model: str | None = None  # folder of the base model on this host; None: only models that come with this package
    blocks: int | None = None  # limit on the blocks to activate
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
    """One client of a run: its rows and a replica. The virtual clients of one process share a replica."""

    def __init__(self, terms: Terms, own: NodeConfig, replica: Replica) -> None:
        """
        Raises:
            InvalidInputError, MissingDataError: the client's rows are missing, or do not fit the run's task.
        """
        if own.partition >= terms.clients:
            raise InvalidInputError(f"partition-id is {own.partition}; this run has 0 to {terms.clients - 1}")
        self.terms, self.own, self.replica = terms, own, replica
        self.task = task_of(terms.task)
        self.frame = _own_rows(terms, self.task, own)
        self._rows = ("", self._encoded(""))

    def rows(self, prompt: str = "") -> Rows | RowsOnDemand:
        """The client's rows, with the prompt that the server chose."""
        if prompt != self._rows[0]:
            self._rows = (prompt, self._encoded(prompt))
        return self._rows[1]

    def _encoded(self, prompt: str) -> Rows | RowsOnDemand:
        settings, replica = self.terms.settings, self.replica
        task = replace(self.task, prompt=prompt, prompts=()) if prompt else self.task
        rows, _ = train_rows(task, self.frame, replica.tokenizer, settings, SAMPLE)
        check_tokens(replica.network, replica.tokenizer, rows)
        return rows.centred() if settings.calibration == "batch" else rows

    def preference(self, instruction: Instruction) -> np.ndarray:
        """The model's mean preference among the label words on this client's rows, (C,), float64."""
        return label_prior(self.replica.network, self.rows(instruction.prompt), prior_rows(self.terms.clients))

    def prompt_losses(self, instruction: Instruction) -> list[float]:
        """The loss of each of the instruction's prompts on some of this client's rows, nats."""
        replica, settings = self.replica, self.terms.settings
        where = (replica.tokenizer, replica.network, settings.seq_len)
        key = (settings.seed, self.own.partition)
        return prompt_losses(self.task, self.frame, *where, instruction.prompts, instruction.rows, key=key)

    def scalars(self, instruction: Instruction) -> tuple[np.ndarray, float, int]:
        """rho_Q, the loss and the number of forward passes of the instruction's round. The weights do not change.

        Raises:
            ProtocolError: the replica is not at the round before, or the blocks are invalid or more than allowed.
        """
        replica, n = self.replica, self.own.partition
        if replica.round != instruction.after:
            raise ProtocolError(
                f"round {instruction.round} starts from {instruction.after} and the replica is at {replica.round}"
            )
        M = replica.network.num_blocks
        if not instruction.blocks or not all(0 <= m < M for m in instruction.blocks):
            raise ProtocolError(f"blocks {list(instruction.blocks)[:8]} are not all blocks of a model of {M}")
        if self.own.blocks is not None and len(instruction.blocks) > self.own.blocks:
            raise ProtocolError(
                f"the instruction has {len(instruction.blocks)} blocks, and its operator allows {self.own.blocks}"
            )
        # Client n of n + 1, so that it draws the same batches as client n of a run in one process.
        A_MN, asked_N = np.zeros((M, n + 1), dtype=bool), np.zeros(n + 1, dtype=bool)
        A_MN[list(instruction.blocks), n] = asked_N[n] = True
        rows = self.rows(instruction.prompt).with_prior(instruction.prior_C)
        settings, network, held = replica.settings, replica.network, np.arange(len(rows))
        plan = RoundPlan(instruction.round, instruction.seeds_Q, asked_N, network, A_MN, settings, replica.directions)
        batch = client_batch(
            FederatedRows(rows, [held] * (n + 1), cast(Rows, rows)), settings, plan.round, n, network.device
        )
        reports = method_of(settings).report(plan, {n: batch})
        return reports.rho_NQ[n], float(reports.loss_N[n]), reports.forward_passes


def _own_rows(terms: Terms, task: Task, own: NodeConfig) -> pd.DataFrame:
    if own.rows is not None:
        return _of_file(task, own.rows)
    if isinstance(task.rows, TableRows):
        if own.data is None:
            raise InvalidInputError("this client's operator has not set the file with its rows (rows)")
        task = with_data(task, own.data, None if terms.splits else own.data)  # a test file: load splits nothing off
    frame = load(task)
    return frame.iloc[divide(frame, terms.clients, terms.alpha, terms.settings.seed, terms.division)[own.partition]]


def _of_file(task: Task, path: str) -> pd.DataFrame:
    """The rows of a client's file in the form of the run's task. The details of an error go to the client's log alone:
    the server gets an error that quotes nothing of the rows."""
    try:
        return labelled_rows(task, path)
    except ZorbaError as error:
        logging.getLogger(__name__).warning("zorba: this client's rows do not fit the run's task: %s", error)
        raise InvalidInputError(
            f"this client's rows do not fit the task {task.name}; the client's log has the details"
        ) from None
