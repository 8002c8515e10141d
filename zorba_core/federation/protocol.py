"""The messages between server and clients as Flower's records, and the checks of answers.

    message type     server to client                                       client to server
    query.hello      the run's name and terms                               partition, rows, base model
    query.prompts    prompts, and how many rows to measure them on          the loss of each prompt
    train            instruction: seeds, the client's blocks, new averages  Q scalars and the loss
    evaluate         instruction: new averages                              its preference among the label words
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

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

if TYPE_CHECKING:
    from zorba_core.engine.round import Round

HELLO, PROMPTS, TRAIN, EVALUATE, CATCH_UP = "query.hello", "query.prompts", "train", "evaluate", "query.catch_up"
MAX_REASON = 300
_RECORD, _NUMBERS, _SCALARS = "zorba", "zorba-numbers", "scalars"


class ProtocolError(Exception):
    """An invalid message: the text is one line for the log. No part of the message is used."""


@dataclass(frozen=True, eq=False)
class Average:
    """The update of one round, which starts from the weights after round ``after``."""

    round: int
    after: int
    lr: float
    seeds_Q: np.ndarray  # uint32
    rho_bar_MQ: np.ndarray  # float64

    @classmethod
    def of(cls, done: Round) -> Average:
        """The update of a round in which scalars were averaged, as the methods of a federation do."""
        return cls(done.round, done.start, done.lr, done.seeds_Q, cast(np.ndarray, done.rho_bar_MQ))


@dataclass(frozen=True, eq=False)
class Line:
    """The rounds whose updates, from the base model on, make the server's weights. A run that goes back to an earlier
    round, and a server that starts again, begin a line with another number: replicas then start from the base model."""

    number: int
    averages: list[Average] = field(default_factory=list)

    @classmethod
    def of(cls, rounds: Sequence[Round] = ()) -> Line:
        return cls(secrets.randbits(48), [Average.of(done) for done in rounds])

    @property
    def end(self) -> int:
        """The last round."""
        return self.averages[-1].round if self.averages else 0

    def after(self, replica_round: int) -> tuple[Average, ...]:
        """The averages after a round."""
        return tuple(average for average in self.averages if average.round > replica_round)


@dataclass(frozen=True, eq=False)
class Instruction:
    """A message for one client: apply the averages, then compute what the message's type asks for."""

    run: str
    line: int  # number of the line
    averages: tuple[Average, ...]  # each after the one before; the client skips those that it has applied
    round: int = 0  # the round to compute scalars for
    after: int = 0  # the round whose weights it starts from
    seeds_Q: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint32))
    blocks: tuple[int, ...] = ()  # this client's column of the allocation
    prior_C: tuple[float, ...] = ()  # subtracted from the label scores; empty: none
    prompt: str = ""  # of the run, if it was chosen; empty: the one in the terms
    prompts: tuple[str, ...] = ()  # to measure
    rows: int = 0  # to measure them on


_FIELDS, _LISTS = ("run", "line", "round", "after", "prompt", "rows"), ("blocks", "prior_C", "prompts")


def hello(run: str, terms: str) -> RecordDict:
    """The greeting of a client. ``terms``: JSON of :class:`zorba_core.federation.request.Terms`."""
    return RecordDict({_RECORD: ConfigRecord({"run": run, "terms": terms})})


def instruction_records(instruction: Instruction) -> RecordDict:
    """The instruction as records. Every message needs new records, because Flower empties them when it sends."""
    averages = instruction.averages
    config = ConfigRecord(
        {
            **{name: getattr(instruction, name) for name in _FIELDS},
            **{name: list(getattr(instruction, name)) for name in _LISTS},
            "seeds_Q": instruction.seeds_Q.tolist(),
            "rounds": [average.round for average in averages],
            "afters": [average.after for average in averages],
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
        config: dict[str, Any] = {**_config(records)}
        numbers = np.array(config["rho_bar_RMQ"], np.float64)
        rounds, afters, lrs = config["rounds"], config["afters"], config["lrs"]
        seeds_RQ = np.array(config["seeds_RQ"], np.uint32).reshape(len(rounds), -1 if rounds else 0)
        if not (np.isfinite(numbers).all() and np.isfinite(lrs).all()):
            raise ValueError("not all averages are finite")
        rho_bar_RMQ = numbers.reshape(len(rounds), -1, seeds_RQ.shape[1]) if rounds else ()
        averages = tuple(map(Average, rounds, afters, lrs, seeds_RQ, rho_bar_RMQ))
        same: dict[str, Any] = {name: config[name] for name in _FIELDS}
        lists: dict[str, Any] = {name: tuple(config[name]) for name in _LISTS}
        return Instruction(**same, averages=averages, seeds_Q=np.array(config["seeds_Q"], np.uint32), **lists)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"the server's instruction cannot be read ({type(error).__name__}: {error})") from None


def read_hello(records: RecordDict) -> tuple[str, str]:
    """The run's name and its terms, from a message or from the client's state.

    Raises:
        ProtocolError: the greeting is missing or incomplete.
    """
    try:
        config = _config(records)
        return str(config["run"]), str(config["terms"])
    except KeyError as error:
        raise ProtocolError(f"the server's greeting has no {error}") from None


def store_hello(records: RecordDict, state: RecordDict) -> None:
    """Copy a greeting to the client's state, where a process that Flower starts later reads it."""
    state[_RECORD] = ConfigRecord({**_config(records)})


def _config(records: RecordDict) -> ConfigRecord:
    return cast(ConfigRecord, records[_RECORD])


def answer_records(values: dict[str, Any], rho_Q: np.ndarray | None = None) -> RecordDict:
    """An answer: strings, numbers and lists of floats by name, and the scalars if there are any."""
    texts: dict[str, Any] = {name: value for name, value in values.items() if isinstance(value, str)}
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
            rho_Q = cast(ArrayRecord, self._arrays)["rho"].numpy()
        except Exception:  # a foreign array can fail to load in many ways
            raise ProtocolError("it has no scalars that can be read") from None
        if rho_Q.dtype != np.float64 or rho_Q.shape != (count,):
            raise ProtocolError(f"{rho_Q.dtype} scalars of shape {rho_Q.shape} where {count} were asked for")
        return rho_Q
