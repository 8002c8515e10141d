"""Flower's records carry our messages bit for bit; a node's operator is told what is wrong with a setting."""

from __future__ import annotations

import math
import time
from functools import partial

import httpx
import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from zorba_core.errors import InvalidInputError
from zorba_core.federation.flower.client_app import client_settings
from zorba_core.federation.flower.records import from_records, to_records
from zorba_core.federation.flower.transport import FlowerTransport
from zorba_core.federation.membership import Outgoing
from zorba_core.federation.messages import (
    CATCH_UP,
    HELLO,
    Aggregate,
    CatchUp,
    Hello,
    MessageError,
    Payload,
    Registration,
    RoundAnswer,
    RoundTask,
    decode,
    encode,
)
from zorba_core.vram import GIB

RUN = "ab" * 32


@pytest.fixture(autouse=True)
def in_a_run(monkeypatch):
    """Who we are, which Flower tells each of its processes at its start."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def through_flower(records: RecordDict) -> RecordDict:
    """As they come out at the other end: serialised and read back by Flower itself."""
    sent = {name: record.deflate() for name, record in records.items()}
    kinds = {name: type(record) for name, record in records.items()}
    return RecordDict({name: kinds[name].inflate(content, children={}) for name, content in sent.items()})


@pytest.mark.parametrize("up", [False, True])
def test_numbers_cross_flower_with_every_bit(up):
    rho_Q = np.array([math.pi, -0.0, 5e-324, math.inf, math.nan, 1e308])
    answer = RoundAnswer(RUN, 3, 7, rho_Q, math.nan, 7)
    found = decode(from_records(through_flower(to_records(encode(answer), up=up))), RoundAnswer)
    assert found.rho_Q.tobytes() == rho_Q.tobytes()
    assert (found.seat, found.round, found.forward_passes, math.isnan(found.loss)) == (3, 7, 7, True)


def test_a_task_without_averages_and_seeds_up_to_32_bits_cross_flower():
    task = RoundTask(RUN, 1, np.array([0, 2**32 - 1], dtype=np.uint32), (0, 11), ())
    found = decode(from_records(through_flower(to_records(encode(task), up=False))), RoundTask)
    assert found.seeds_Q.tolist() == [0, 2**32 - 1]
    assert (found.blocks, found.averages) == ((0, 11), ())


@pytest.mark.parametrize(
    "records",
    [
        RecordDict(),
        RecordDict({"other": ConfigRecord({"what": "answer"})}),
        RecordDict({"zorba": MetricRecord({"what": 1})}),
        RecordDict({"zorba": ConfigRecord({"seat": 1})}),
        RecordDict({"zorba": ConfigRecord({"what": "answer", "seat": 1}), "zorba-numbers": MetricRecord({"seat": 2})}),
    ],
)
def test_other_records_than_the_protocols_are_refused(records):
    with pytest.raises(MessageError):
        from_records(records)


class Grid:
    """A SuperLink's grid whose clients answer at once, are silent, or are gone."""

    def __init__(self, answers: dict[int, Payload], nodes: set[int]) -> None:
        self.answers, self.nodes, self.sent = answers, nodes, {}

    def get_node_ids(self):
        return self.nodes

    def push_messages(self, messages):
        for number, message in enumerate(messages):
            self.sent[f"m{number}"] = message
        return list(self.sent)

    def pull_messages(self, ids):
        found = []
        for message_id in ids:
            sent = self.sent[message_id]
            answer = self.answers.get(sent.metadata.dst_node_id)
            if answer is not None:
                # A reply needs the ids that a SuperLink gives; it is all that is made up here.
                sent.metadata.__dict__["_message_id"] = message_id
                found.append(Message(to_records(answer, up=True), reply_to=sent))
        return found


def test_an_exchange_ends_with_the_answers_there_are_when_the_rest_is_gone():
    here, gone = 7, 8
    registration = encode(Registration(RUN, 0, 0, RUN, 5, 0, 3))
    grid = Grid({here: registration}, {here})
    started = time.monotonic()
    incoming = FlowerTransport(grid).exchange(
        [Outgoing(here, HELLO, encode(Hello(RUN, "{}"))), Outgoing(gone, CATCH_UP, encode(CatchUp(RUN, ())))],
        deadline=60.0,
    )
    assert [(one.address, decode(one.payload, Registration).blocks) for one in incoming] == [(here, 3)]
    assert time.monotonic() - started < 30  # it looks for nodes every two seconds, and gave up on one


class BusyGrid(Grid):
    """A SuperLink whose database is locked at every other request."""

    requests = 0

    def __getattribute__(self, name):
        if name in ("get_node_ids", "push_messages", "pull_messages"):
            return partial(self._every_other_time, super().__getattribute__(name))
        return super().__getattribute__(name)

    def _every_other_time(self, request, *arguments, **options):
        self.requests += 1
        if self.requests % 2:
            asked = httpx.Request("POST", "http://127.0.0.1/v1")
            raise httpx.HTTPStatusError("", request=asked, response=httpx.Response(500))
        return request(*arguments, **options)


def test_a_superlink_that_cannot_answer_just_now_is_asked_again():
    answer = encode(Registration(RUN, 0, 0, "0" * 64, 9, 0, 3))
    transport = FlowerTransport(BusyGrid({1: answer}, {1}), sleep=lambda seconds: None)
    incoming = transport.exchange([Outgoing(1, HELLO, encode(Hello(RUN, "{}")))], deadline=60.0)
    assert decode(incoming[0].payload, Registration).blocks == 3
    assert list(transport.present()) == [1]


def test_a_round_of_a_client_takes_about_a_kilobyte():
    seeds_Q = np.arange(2**31, 2**31 + 10, dtype=np.uint32)
    average = Aggregate(6, seeds_Q, np.random.default_rng(0).normal(size=(12, 10)), 1e-2)
    down = to_records(encode(RoundTask(RUN, 7, seeds_Q, tuple(range(12)), (average,))), up=False)
    up = to_records(encode(RoundAnswer(RUN, 3, 7, np.ones(10), 0.7, 10)), up=True)
    assert sum(len(record.deflate()) for record in down.values()) < 1400
    assert sum(len(record.deflate()) for record in up.values()) < 450


def test_a_node_config_becomes_a_clients_settings(tmp_path):
    settings, folder = client_settings(
        {"partition-id": 2, "num-partitions": 4, "vram-gib": 1.5, "replica": str(tmp_path)}
    )
    assert (settings.seat, settings.vram_bytes, settings.blocks, folder) == (2, round(1.5 * GIB), 0, tmp_path)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"seat": 0, "blocks": 1}, "replica"),
        ({"blocks": 1, "replica": "x"}, "seat"),
        ({"seat": 0, "replica": "x"}, "without a GPU"),
        ({"seat": 0, "blocks": "many", "replica": "x"}, "node-config"),
        ({"seat": 0, "blocks": 1, "replica": "x", "colour": "red"}, "colour"),
    ],
)
def test_a_wrong_node_config_is_named(config, named):
    with pytest.raises(InvalidInputError, match=named):
        client_settings(config)
