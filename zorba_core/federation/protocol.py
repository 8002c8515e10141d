"""The messages between server and clients, as Flower's records, and how an answer is checked.

    message type     down                                             up
    query.hello      the run's name and terms                         place, rows, base model, label prior
    train            task: seeds, own blocks, averages not seen yet   Q scalars and the loss
    evaluate         task: averages, rows held out                    the loss on those rows
    query.catch_up   task: averages                                   SHA-256 of the weights

Every answer says after which round the client needs averages the next time (``replica_round``), or why there is none
(``error``). Scalars travel as one ``ArrayRecord``, and zeros of their shape go down before them: so Flower's own mods
for clipping and noise apply to them as they are. All else is one ``ConfigRecord`` down, and up a ``ConfigRecord`` of
texts and a ``MetricRecord`` of numbers. Nothing that arrives is trusted: :class:`Answer` takes plain values of the
right kind and length, and :mod:`zorba_core.engine.reports` decides whether scalars can be used.

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
    """A message that is not what it should be. One line for the log; no part of it is used."""


@dataclass(frozen=True, eq=False)
class Average:
    """One round's update: with the base model and those before it, the weights."""

    round: int
    lr: float
    seeds_Q: np.ndarray  # uint32
    rho_bar_MQ: np.ndarray  # float64


@dataclass(frozen=True, eq=False)
class Line:
    """Rounds from the base model on: line 0 is the run, lines 1, 2, ... are the trials that find a learning rate."""

    number: int = 0
    start: int = 0  # the round that the base model stands at
    averages: list[Average] = field(default_factory=list)  # of the rounds start + 1, start + 2, ...

    @property
    def end(self) -> int:
        """The last round."""
        return self.start + len(self.averages)

    def after(self, replica_round: int) -> tuple[Average, ...]:
        """The averages that a client which stands at a round has not seen."""
        return tuple(self.averages[max(0, replica_round - self.start) :])


@dataclass(frozen=True, eq=False)
class Task:
    """What the server asks of one client: to follow the averages, and then for scalars, a loss or a fingerprint."""

    run: str
    line: int
    start: int  # the round that the line's base model stands at
    averages: tuple[Average, ...]  # consecutive rounds; the client skips those that it has applied
    round: int = 0  # whose scalars are asked for
    seeds_Q: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint32))
    blocks: tuple[int, ...] = ()  # this client's column of the allocation
    held_out: tuple[int, ...] = ()  # of the client's own rows: not trained on, and what a loss is asked for
    prior_C: tuple[float, ...] = ()  # subtracted from the label scores; empty: none


def hello(run: str, terms: str, *, needs_prior: bool) -> RecordDict:
    """``terms``: JSON of :class:`zorba_core.federation.request.Terms`."""
    return RecordDict({_RECORD: ConfigRecord({"run": run, "terms": terms, "needs_prior": needs_prior})})


def task_records(task: Task) -> RecordDict:
    """The task as it is sent, records made afresh: an instance shared between two messages is emptied by the first."""
    averages = task.averages
    config = ConfigRecord(
        {
            **{name: getattr(task, name) for name in ("run", "line", "start", "round")},
            **{name: list(getattr(task, name)) for name in ("blocks", "held_out", "prior_C")},
            "seeds_Q": task.seeds_Q.tolist(),
            "rounds": [average.round for average in averages],
            "lrs": [float(average.lr) for average in averages],
            "seeds_RQ": [seed for average in averages for seed in average.seeds_Q.tolist()],
            "rho_bar_RMQ": [value for average in averages for value in average.rho_bar_MQ.ravel().tolist()],
        }
    )
    if not len(task.seeds_Q):
        return RecordDict({_RECORD: config})
    return RecordDict({_RECORD: config, _SCALARS: _scalars(np.zeros(len(task.seeds_Q)))})


def read_task(records: RecordDict) -> Task:
    """The task of a message that arrived.

    Raises:
        ProtocolError: it is malformed, or its averages are not finite.
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
        return Task(**same, averages=averages, seeds_Q=np.array(config["seeds_Q"], np.uint32), **lists)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"the server's task cannot be read ({type(error).__name__}: {error})") from None


def read_hello(records: RecordDict) -> tuple[str, str, bool]:
    """The run's name, its terms, and whether a label prior is asked for; of a message, or of the client's state, which
    keeps a greeting for a process that Flower starts later.

    Raises:
        ProtocolError: it is missing or malformed.
    """
    try:
        return tuple(records[_RECORD][name] for name in ("run", "terms", "needs_prior"))
    except KeyError as error:
        raise ProtocolError(f"the server's greeting has no {error}") from None


def store_hello(records: RecordDict, state: RecordDict) -> None:
    """Copy a greeting to the client's state, for :func:`read_hello`."""
    state[_RECORD] = ConfigRecord(dict(records[_RECORD]))


def answer_records(values: dict[str, Any], rho_Q: np.ndarray | None = None) -> RecordDict:
    """An answer: texts, numbers and lists of floats by name, and the scalars where they were asked for."""
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    numbers = {name: value for name, value in values.items() if name not in texts}
    records = RecordDict({_RECORD: ConfigRecord(texts), _NUMBERS: MetricRecord(numbers)})
    if rho_Q is not None:
        records[_SCALARS] = _scalars(rho_Q)
    return records


def _scalars(rho_Q: np.ndarray) -> ArrayRecord:
    return ArrayRecord({"rho": Array(np.asarray(rho_Q, np.float64))})


class Answer:
    """A client's answer, whose values are read one by one.

    Raises:
        ProtocolError: the client failed or refused, says nothing usable, or a value has another kind or length.
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
        """A whole number from 0 on."""
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
        """Why the client does not do what was asked; empty where it does."""
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
        except Exception:  # an array that somebody else wrote fails to load in many ways
            raise ProtocolError("it has no scalars that can be read") from None
        if rho_Q.dtype != np.float64 or rho_Q.shape != (count,):
            raise ProtocolError(f"{rho_Q.dtype} scalars of shape {rho_Q.shape} where {count} were asked for")
        return rho_Q
