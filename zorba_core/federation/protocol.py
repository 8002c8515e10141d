"""The messages between server and clients as Flower's records, and the checks of answers.

    message type     server to client                                client to server
    query.hello      the run's name and terms                        partition, rows, base model, label prior
    train            instruction: seeds, the client's blocks, new averages  Q scalars and the loss
    evaluate         instruction: new averages, held-out rows               the loss on those rows
    query.catch_up   instruction: new averages                              SHA-256 of the weights

Every answer has either ``replica_round`` (the next message needs the averages after this round) or ``error`` (the
reason why the client did not follow the instruction). Scalars are one ``ArrayRecord``; the instruction brings zeros of
the same shape, because Flower's mods for clipping and noise need them. The rest of an instruction is one
``ConfigRecord``; the rest of an answer is a ``ConfigRecord`` of strings and a ``MetricRecord`` of numbers. No answer is
trusted: :class:`Answer` checks types and lengths, and :mod:`zorba_core.engine.reports` decides whether scalars can be
used.

Shapes: M blocks, Q directions of a round, R rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

HELLO, TRAIN, EVALUATE, CATCH_UP = "query.hello", "train", "evaluate", "query.catch_up"
MAX_REASON = 300
_RECORD, _NUMBERS, _SCALARS = "zorba", "zorba-numbers", "scalars"


class ProtocolError(Exception):
    """An invalid message: the text is one line for the log. No part of the message is used."""


@dataclass(frozen=True, eq=False)
class Average:
    """The update of one round. The weights are the base model plus all updates so far."""

    round: int
    lr: float
    seeds_Q: np.ndarray  # uint32
    rho_bar_MQ: np.ndarray  # float64


@dataclass(frozen=True, eq=False)
class Line:
    """Consecutive rounds that start at the base model. Line 0 is the run; lines 1, 2, ... are trials of a learning
    rate."""

    number: int = 0
    start: int = 0  # number of the round before the first; the weights are then the base model's
    averages: list[Average] = field(default_factory=list)  # of the rounds start + 1, start + 2, ...

    @property
    def end(self) -> int:
        """The last round."""
        return self.start + len(self.averages)

    def after(self, replica_round: int) -> tuple[Average, ...]:
        """The averages after a round."""
        return tuple(self.averages[max(0, replica_round - self.start) :])


@dataclass(frozen=True, eq=False)
class Instruction:
    """A message for one client: apply the averages, then compute scalars, a loss or a hash of the weights."""

    run: str
    line: int
    start: int  # as in Line
    averages: tuple[Average, ...]  # consecutive rounds; the client skips those that it has applied
    round: int = 0  # the round to compute scalars for
    seeds_Q: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint32))
    blocks: tuple[int, ...] = ()  # this client's column of the allocation
    held_out: tuple[int, ...] = ()  # positions of rows that the client evaluates on and does not train on
    prior_C: tuple[float, ...] = ()  # subtracted from the label scores; empty: none


def hello(run: str, terms: str, *, needs_prior: bool) -> RecordDict:
    """The greeting of a client. ``terms``: JSON of :class:`zorba_core.federation.request.Terms`."""
    return RecordDict({_RECORD: ConfigRecord({"run": run, "terms": terms, "needs_prior": needs_prior})})


def instruction_records(instruction: Instruction) -> RecordDict:
    """The instruction as records. Every message needs new records, because Flower empties them when it sends."""
    averages = instruction.averages
    config = ConfigRecord(
        {
            **{name: getattr(instruction, name) for name in ("run", "line", "start", "round")},
            **{name: list(getattr(instruction, name)) for name in ("blocks", "held_out", "prior_C")},
            "seeds_Q": instruction.seeds_Q.tolist(),
            "rounds": [average.round for average in averages],
            "lrs": [float(average.lr) for average in averages],
            "seeds_RQ": [seed for average in averages for seed in average.seeds_Q.tolist()],
            "rho_bar_RMQ": [value for average in averages for value in average.rho_bar_MQ.ravel().tolist()],
        }
    )
    if not len(instruction.seeds_Q):
        return RecordDict({_RECORD: config})
    return RecordDict({_RECORD: config, _SCALARS: _scalars(np.zeros(len(instruction.seeds_Q)))})


def read_instruction(records: RecordDict) -> Instruction:
    """The instruction of a message.

    Raises:
        ProtocolError: the instruction is malformed, or its averages are not finite.
    """
    try:
        config = dict(records[_RECORD])
        numbers = np.array(config["rho_bar_RMQ"], np.float64)
        rounds, lrs = config["rounds"], config["lrs"]
        seeds_RQ = np.array(config["seeds_RQ"], np.uint32).reshape(len(rounds), -1 if rounds else 0)
        if not (np.isfinite(numbers).all() and np.isfinite(lrs).all()):
            raise ValueError("not all averages are finite")
        rho_bar_RMQ = numbers.reshape(len(rounds), -1, seeds_RQ.shape[1]) if rounds else ()
        averages = tuple(map(Average, rounds, lrs, seeds_RQ, rho_bar_RMQ))
        same = {name: config[name] for name in ("run", "line", "start", "round")}
        lists = {name: tuple(config[name]) for name in ("blocks", "held_out", "prior_C")}
        return Instruction(**same, averages=averages, seeds_Q=np.array(config["seeds_Q"], np.uint32), **lists)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"the server's instruction cannot be read ({type(error).__name__}: {error})") from None


def read_hello(records: RecordDict) -> tuple[str, str, bool]:
    """The run's name, its terms, and whether the run needs a label prior, from a message or from the client's state.

    Raises:
        ProtocolError: the greeting is missing or incomplete.
    """
    try:
        return tuple(records[_RECORD][name] for name in ("run", "terms", "needs_prior"))
    except KeyError as error:
        raise ProtocolError(f"the server's greeting has no {error}") from None


def store_hello(records: RecordDict, state: RecordDict) -> None:
    """Copy a greeting to the client's state, where a process that Flower starts later reads it."""
    state[_RECORD] = ConfigRecord(dict(records[_RECORD]))


def answer_records(values: dict[str, Any], rho_Q: np.ndarray | None = None) -> RecordDict:
    """An answer: strings, numbers and lists of floats by name, and the scalars if there are any."""
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    numbers = {name: value for name, value in values.items() if name not in texts}
    records = RecordDict({_RECORD: ConfigRecord(texts), _NUMBERS: MetricRecord(numbers)})
    if rho_Q is not None:
        records[_SCALARS] = _scalars(rho_Q)
    return records


def _scalars(rho_Q: np.ndarray) -> ArrayRecord:
    return ArrayRecord({"rho": Array(np.asarray(rho_Q, np.float64))})


class Answer:
    """A client's answer. Each method checks and returns one value.

    Raises:
        ProtocolError: the client failed, the records are not the protocol's, or a value has a wrong type or length.
    """

    def __init__(self, message: Message) -> None:
        if message.has_error():
            raise ProtocolError(f"no answer: {str(message.error.reason or 'failed')[:MAX_REASON]}")
        records = message.content
        texts, numbers = records.get(_RECORD), records.get(_NUMBERS)
        if not isinstance(texts, ConfigRecord) or not isinstance(numbers, MetricRecord):
            raise ProtocolError("its records are not the protocol's")
        self._values, self._arrays = {**texts, **numbers}, records.get(_SCALARS)

    def whole(self, name: str) -> int:
        """An integer, 0 or more."""
        value = self._value(name, int)
        if not 0 <= value < 2**53:
            raise ProtocolError(f"{name} is {value}, which is out of range")
        return value

    def number(self, name: str) -> float:
        return self._value(name, float)

    def text(self, name: str) -> str:
        return self._value(name, str)

    def _value(self, name: str, kind: type) -> Any:
        value = self._values.get(name)
        if type(value) is not kind:
            raise ProtocolError(f"{name} is {ascii(value)[:40]} and not {kind.__name__}")
        return value

    @property
    def error(self) -> str:
        """The reason why the client did not follow the instruction; empty if it did."""
        return self.text("error")[:MAX_REASON] if "error" in self._values else ""

    def numbers(self, name: str, count: int) -> np.ndarray:
        """``count`` finite floats."""
        values = self._values.get(name)
        if type(values) is not list or len(values) != count or not np.isfinite(values).all():
            raise ProtocolError(f"{name} is not a list of {count} finite numbers")
        return np.array(values, np.float64)

    def scalars(self, count: int) -> np.ndarray:
        """rho_Q: ``count`` float64, finite or not."""
        try:
            rho_Q = self._arrays["rho"].numpy()
        except Exception:  # a foreign array can fail to load in many ways
            raise ProtocolError("it has no scalars that can be read") from None
        if rho_Q.dtype != np.float64 or rho_Q.shape != (count,):
            raise ProtocolError(f"{rho_Q.dtype} scalars of shape {rho_Q.shape} where {count} were asked for")
        return rho_Q
