"""The messages between server and clients, and how they are read.

A message travels as a :class:`Payload`: a flat table of whole numbers, floats, strings and lists of numbers. A payload
with a missing, additional or mistyped field is refused as a whole (:class:`MessageError`). Scalars that are not finite
pass the reading of an answer: whether a report can be used is for ``zorba_core.engine.reports`` to judge.

    kind      down                                   up
    hello     Hello: which run, its config           Registration: seat, capacity, where the replica stands
    train     RoundTask: seeds, blocks, averages     RoundAnswer: Q scalars and the loss
    catch-up  CatchUp: averages                      Standing: round and fingerprint of the weights

In place of any answer a client may send a :class:`Refusal`. Averages are those of the rounds that the client's replica
has not seen: one a round usually, all of them for one that joins late.

Shapes: M blocks, Q directions of a round, R rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np

HELLO, TRAIN, CATCH_UP = "hello", "train", "catch_up"
MAX_NUMBERS = 2**20  # of one message's averages: 8 MiB
MAX_REASON = 300
MAX_SEATS = 100_000
_MAX_WHOLE = 2**53

Value = int | float | str | list[int] | list[float]


class MessageError(Exception):
    """A payload that is not the message it should be. One line for the log; no part of the payload is used."""


@dataclass(frozen=True)
class Payload:
    """A message as it travels. ``what`` says which message it is."""

    what: str
    values: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Hello:
    run: str  # fingerprint of the config
    config: str  # JSON: see zorba_core.federation.config


@dataclass(frozen=True)
class Registration:
    run: str
    seat: int  # 0..N-1: whose rows these are
    round: int  # that the replica stands at
    base_sha256: str
    rows: int
    vram_bytes: int  # that the client can spare; 0: not given, then blocks is
    blocks: int  # that the client can hold; 0: not given, then vram_bytes is


@dataclass(frozen=True, eq=False)
class Aggregate:
    """One round's update: with the base model and those before it, the weights."""

    round: int
    seeds_Q: np.ndarray  # uint32
    rho_bar_MQ: np.ndarray  # float64
    lr: float


@dataclass(frozen=True, eq=False)
class RoundTask:
    run: str
    round: int
    seeds_Q: np.ndarray
    blocks: tuple[int, ...]  # this client's column of the plan
    averages: tuple[Aggregate, ...]


@dataclass(frozen=True, eq=False)
class RoundAnswer:
    run: str
    seat: int
    round: int
    rho_Q: np.ndarray  # float64
    loss: float
    forward_passes: int


@dataclass(frozen=True, eq=False)
class CatchUp:
    run: str
    averages: tuple[Aggregate, ...]


@dataclass(frozen=True)
class Standing:
    run: str
    seat: int
    round: int
    weights_sha256: str


@dataclass(frozen=True)
class Refusal:
    """A client that cannot follow a message. ``round`` is the round of its replica, so the server can send what it
    lacks."""

    run: str
    seat: int
    round: int
    reason: str


AnyMessage = Hello | Registration | RoundTask | RoundAnswer | CatchUp | Standing | Refusal
_NAMES = {
    Hello: "hello",
    Registration: "registration",
    RoundTask: "task",
    RoundAnswer: "answer",
    CatchUp: "catch-up",
    Standing: "standing",
    Refusal: "refusal",
}


def encode(message: AnyMessage) -> Payload:
    """The message as it travels."""
    values: dict[str, Value] = {}
    for name in message.__dataclass_fields__:
        value = getattr(message, name)
        if name == "averages":
            values |= _encode_averages(value)
        elif isinstance(value, np.ndarray | tuple):
            values[name] = np.asarray(value).tolist()
        else:
            values[name] = value
    return Payload(_NAMES[type(message)], values)


def decode(payload: Payload, *expected: type) -> AnyMessage:
    """The message in a payload, which must be of one of the ``expected`` types.

    Raises:
        MessageError: it is another, or malformed.
    """
    kind = next((kind for kind in expected if payload.what == _NAMES[kind]), None)
    if kind is None:
        names = " or ".join(_NAMES[kind] for kind in expected)
        raise MessageError(f"got {ascii(payload.what)[:40]} where {names} was expected")
    read = _Reader(payload)
    found = {part.name: read.field(part.name, part.type) for part in fields(kind)}
    read.nothing_left()
    return kind(**found)


class _Reader:
    """Takes fields out of a payload, each once; a wrong one is one line of error."""

    def __init__(self, payload: Payload) -> None:
        self._what, self._left = payload.what, dict(payload.values)

    def field(self, name: str, annotation: str) -> object:
        if name == "averages":
            return _read_averages(self)
        if name == "seeds_Q":
            return np.array(self.many(name, int, 2**32 - 1), dtype=np.uint32)
        if name == "rho_Q":
            return np.array(self.many(name, float), dtype=np.float64)
        if name == "blocks" and annotation != "int":
            return tuple(self.many(name, int))
        return self.one(name, {"int": int, "float": float, "str": str}[annotation])

    def one(self, name: str, kind: type) -> int | float | str:
        value = self._take(name)
        if type(value) is not kind or (kind is int and not 0 <= value <= _MAX_WHOLE):
            raise MessageError(f"{self._what}: {name} is {ascii(value)[:40]}, not {_SAID[kind]}")
        return value

    def many(self, name: str, kind: type, most: int = _MAX_WHOLE) -> list:
        values = self._take(name)
        if type(values) is not list or len(values) > MAX_NUMBERS or any(type(value) is not kind for value in values):
            raise MessageError(f"{self._what}: {name} is not a list of at most {MAX_NUMBERS} {kind.__name__}s")
        if kind is int and any(not 0 <= value <= most for value in values):
            raise MessageError(f"{self._what}: {name} has a number outside 0..{most}")
        return values

    def nothing_left(self) -> None:
        if self._left:
            raise MessageError(f"{self._what}: unknown field {ascii(next(iter(self._left)))[:40]}")

    def _take(self, name: str) -> Value:
        if name not in self._left:
            raise MessageError(f"{self._what}: {name} is missing")
        return self._left.pop(name)


_SAID = {int: f"a whole number in 0..{_MAX_WHOLE}", float: "a float", str: "text"}


def _encode_averages(averages: Sequence[Aggregate]) -> dict[str, Value]:
    if not averages:
        return {"first": 0, "blocks_of_model": 0, "lrs": [], "seeds_done": [], "rho_bar": []}
    return {
        "first": averages[0].round,
        "blocks_of_model": averages[0].rho_bar_MQ.shape[0],
        "lrs": [float(average.lr) for average in averages],
        "seeds_done": np.concatenate([average.seeds_Q for average in averages]).tolist(),
        "rho_bar": np.concatenate([average.rho_bar_MQ.ravel() for average in averages]).tolist(),
    }


def _read_averages(read: _Reader) -> tuple[Aggregate, ...]:
    first, M = read.one("first", int), read.one("blocks_of_model", int)
    lrs = read.many("lrs", float)
    seeds = np.array(read.many("seeds_done", int, 2**32 - 1), dtype=np.uint32)
    values = np.array(read.many("rho_bar", float))
    R, Q = len(lrs), len(seeds) // max(1, len(lrs))
    if (len(seeds), len(values)) != (R * Q, R * M * Q):
        raise MessageError(f"averages: {len(seeds)} seeds and {len(values)} numbers do not make {R} rounds")
    if not (np.isfinite(values).all() and np.isfinite(lrs).all()):
        raise MessageError("averages: not all are finite")
    rounds = zip(seeds.reshape(R, Q), values.reshape(R, M, Q), lrs, strict=True)
    return tuple(Aggregate(first + r, seeds_Q, rho_bar_MQ, lr) for r, (seeds_Q, rho_bar_MQ, lr) in enumerate(rounds))
