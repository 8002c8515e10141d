"""The messages between server and clients, and their strict reading.

A message travels as a :class:`Payload`: a flat table of whole numbers, floats, strings and lists of numbers. Nothing in
it is ever evaluated or unpickled, every size has a limit, and a payload with a missing, additional or mistyped field is
refused as a whole (:class:`MessageError`). Scalars that are not finite pass the reading of an answer: whether a report
can be used is for ``zorba_core.engine.reports`` to judge.

    kind      down                                   up
    hello     Hello: which run, its config           Registration: seat, capacity, where the replica stands
    train     RoundTask: seeds, blocks, averages     RoundAnswer: Q scalars and the loss
    catch-up  CatchUp: averages                      Standing: round and fingerprint of the weights

In place of any answer a client may send a :class:`Refusal`. Averages are those of the rounds that the client's replica
has not seen: one a round usually, all of them for one that joins late.

Shapes: M blocks, Q directions of a round, R rounds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from zorba_core.planning.memory import GIB, MAX_VRAM_GIB

HELLO, TRAIN, CATCH_UP = "hello", "train", "catch_up"
KINDS = (HELLO, TRAIN, CATCH_UP)
MAX_NUMBERS = 2**20  # of one message's averages: 8 MiB
MAX_TEXT = 2**16
MAX_REASON = 300
MAX_BLOCKS, MAX_DIRECTIONS, MAX_SEATS = 4096, 4096, 100_000
MAX_ROUND = 2**31
MAX_VRAM_BYTES = int(MAX_VRAM_GIB * GIB)
_SHA256 = re.compile(r"[0-9a-f]{64}")

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
    """The message in a payload, which must be one of the ``wanted`` types.

    Raises:
        MessageError: it is another, or malformed.
    """
    types = {_NAMES[kind]: kind for kind in expected}
    if not isinstance(payload.what, str) or payload.what not in types:
        raise MessageError(f"got {_shown(payload.what)} where {' or '.join(types)} was expected")
    read = _Reader(payload)
    message = _READERS[types[payload.what]](read)
    read.nothing_left()
    return message


class _Reader:
    """Takes fields out of a payload, each once; a wrong one is one line of error."""

    def __init__(self, payload: Payload) -> None:
        self._what, self._left = payload.what, dict(payload.values)

    def whole(self, name: str, most: int, least: int = 0) -> int:
        value = self._take(name)
        if type(value) is not int or not least <= value <= most:
            raise self._wrong(name, value, f"a whole number in {least}..{most}")
        return value

    def number(self, name: str) -> float:
        value = self._take(name)
        if type(value) is not float:
            raise self._wrong(name, value, "a float")
        return value

    def text(self, name: str, most: int) -> str:
        value = self._take(name)
        if type(value) is not str or len(value) > most:
            raise self._wrong(name, value, f"text of at most {most} characters")
        return value

    def sha256(self, name: str) -> str:
        value = self._take(name)
        if type(value) is not str or not _SHA256.fullmatch(value):
            raise self._wrong(name, value, "a SHA-256 in hexadecimal")
        return value

    def wholes(self, name: str, most_items: int, most: int) -> list[int]:
        values = self._list(name, most_items, int)
        if any(not 0 <= value <= most for value in values):
            raise MessageError(f"{self._what}: {name} has a number outside 0..{most}")
        return values

    def numbers(self, name: str, most_items: int) -> list[float]:
        return self._list(name, most_items, float)

    def nothing_left(self) -> None:
        if self._left:
            raise MessageError(f"{self._what}: unknown field {_shown(next(iter(self._left)))}")

    def _list(self, name: str, most_items: int, kind: type) -> list:
        values = self._take(name)
        if type(values) is not list or len(values) > most_items:
            raise self._wrong(name, values, f"a list of at most {most_items} numbers")
        if any(type(value) is not kind for value in values):
            raise MessageError(f"{self._what}: {name} must hold {kind.__name__}s only")
        return values

    def _take(self, name: str) -> Value:
        try:
            return self._left.pop(name)
        except KeyError:
            raise MessageError(f"{self._what}: {name} is missing") from None

    def _wrong(self, name: str, value: object, expected: str) -> MessageError:
        return MessageError(f"{self._what}: {name} is {_shown(value)}, not {expected}")


def _shown(value: object) -> str:
    """What an unknown sender sent, short and harmless."""
    if isinstance(value, list):
        return f"a list of {len(value)}"
    shown = ascii(value[:40]) if isinstance(value, str) else ascii(value)[:40]
    return shown


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
    first, M = read.whole("first", MAX_ROUND), read.whole("blocks_of_model", MAX_BLOCKS)
    lrs = read.numbers("lrs", MAX_NUMBERS)
    seeds = read.wholes("seeds_done", MAX_NUMBERS, 2**32 - 1)
    values = read.numbers("rho_bar", MAX_NUMBERS)
    R = len(lrs)
    if R == 0:
        if first or M or seeds or values:
            raise MessageError("averages: numbers without rounds")
        return ()
    Q, rest = divmod(len(seeds), R)
    if rest or Q == 0 or M == 0 or first == 0 or len(values) != R * M * Q:
        raise MessageError(f"averages: {len(seeds)} seeds and {len(values)} numbers do not make {R} rounds")
    if not all(math.isfinite(lr) and lr > 0 for lr in lrs):
        raise MessageError("averages: a learning rate is not a positive number")
    rho_bar_RMQ = np.array(values).reshape(R, M, Q)
    if not np.isfinite(rho_bar_RMQ).all():
        raise MessageError("averages: not all are finite")
    seeds_RQ = np.array(seeds, dtype=np.uint32).reshape(R, Q)
    return tuple(Aggregate(first + r, seeds_RQ[r], rho_bar_RMQ[r], lrs[r]) for r in range(R))


def _read_task(read: _Reader) -> RoundTask:
    run, round_index = read.sha256("run"), read.whole("round", MAX_ROUND, 1)
    seeds = read.wholes("seeds_Q", MAX_DIRECTIONS, 2**32 - 1)
    blocks = tuple(read.wholes("blocks", MAX_BLOCKS, MAX_BLOCKS - 1))
    if not seeds or not blocks or list(blocks) != sorted(set(blocks)):
        raise MessageError("task: it needs seeds, and block ids in rising order")
    averages = _read_averages(read)
    if averages and averages[-1].round != round_index - 1:
        raise MessageError(f"task: averages up to round {averages[-1].round} do not lead to round {round_index}")
    return RoundTask(run, round_index, np.array(seeds, dtype=np.uint32), blocks, averages)


def _read_answer(read: _Reader) -> RoundAnswer:
    return RoundAnswer(
        run=read.sha256("run"),
        seat=read.whole("seat", MAX_SEATS),
        round=read.whole("round", MAX_ROUND, 1),
        rho_Q=np.array(read.numbers("rho_Q", MAX_DIRECTIONS), dtype=np.float64),
        loss=read.number("loss"),
        forward_passes=read.whole("forward_passes", 10 * MAX_DIRECTIONS),
    )


def _read_registration(read: _Reader) -> Registration:
    message = Registration(
        run=read.sha256("run"),
        seat=read.whole("seat", MAX_SEATS),
        round=read.whole("round", MAX_ROUND),
        base_sha256=read.sha256("base_sha256"),
        rows=read.whole("rows", 2**40, 1),
        vram_bytes=read.whole("vram_bytes", MAX_VRAM_BYTES),
        blocks=read.whole("blocks", MAX_BLOCKS),
    )
    if (message.vram_bytes == 0) == (message.blocks == 0):
        raise MessageError("registration: give either vram_bytes or blocks")
    return message


_READERS = {
    Hello: lambda read: Hello(read.sha256("run"), read.text("config", MAX_TEXT)),
    Registration: _read_registration,
    RoundTask: _read_task,
    RoundAnswer: _read_answer,
    CatchUp: lambda read: CatchUp(read.sha256("run"), _read_averages(read)),
    Standing: lambda read: Standing(
        read.sha256("run"),
        read.whole("seat", MAX_SEATS),
        read.whole("round", MAX_ROUND),
        read.sha256("weights_sha256"),
    ),
    Refusal: lambda read: Refusal(
        read.sha256("run"),
        read.whole("seat", MAX_SEATS),
        read.whole("round", MAX_ROUND),
        read.text("reason", MAX_REASON),
    ),
}
_NAMES = {
    Hello: "hello",
    Registration: "registration",
    RoundTask: "task",
    RoundAnswer: "answer",
    CatchUp: "catch-up",
    Standing: "standing",
    Refusal: "refusal",
}
