"""What travels: every bit arrives, nothing malformed is used, and a round costs the bytes that are stated."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from zorba_core.federation import protocol
from zorba_core.federation.protocol import Answer, Average, Instruction, Line, ProtocolError

M, Q = 12, 10


def averages(count: int, first: int = 1) -> tuple[Average, ...]:
    random = np.random.default_rng(0)
    return tuple(
        Average(t, t - 1, 1e-3 / t, random.integers(2**32, size=Q, dtype=np.uint32), random.normal(size=(M, Q)))
        for t in range(first, first + count)
    )


def instruction(count: int = 1, **changes) -> Instruction:
    seeds_Q = np.arange(2**32 - Q, 2**32, dtype=np.uint32)
    asks = {"round": count + 1, "seeds_Q": seeds_Q, "blocks": (0, 5), "prior_C": (-0.1, 1e-300)}
    asks |= {"prompt": "{text}\nIt is", "prompts": ("{text} a:", "{text}\nb"), "rows": 12, "after": 3}
    return Instruction("run", 7, averages(count), **{**asks, **changes})


def answer(records: RecordDict) -> Answer:
    from zorba_core.federation.simulate import LocalGrid

    LocalGrid([])  # a message needs a run
    return Answer(Message(records, 1, "train"))


def test_a_task_arrives_to_the_bit():
    for count in [0, 1, 3]:
        sent, read = instruction(count), protocol.read_instruction(protocol.instruction_records(instruction(count)))
        for name in ("run", "line", "round", "after", "blocks", "prior_C", "prompt", "prompts", "rows"):
            assert getattr(read, name) == getattr(sent, name)
        assert read.seeds_Q.tobytes() == sent.seeds_Q.tobytes()
        assert len(read.averages) == count
        for ours, theirs in zip(read.averages, sent.averages, strict=True):
            assert (ours.round, ours.after, ours.lr) == (theirs.round, theirs.after, theirs.lr)
            assert ours.seeds_Q.tobytes() == theirs.seeds_Q.tobytes()
            assert ours.rho_bar_MQ.tobytes() == theirs.rho_bar_MQ.tobytes()


def test_a_damaged_instruction_is_refused():
    for name, value in [
        ("rho_bar_RMQ", [float("nan")] * M * Q),
        ("rho_bar_RMQ", [1.0]),
        ("seeds_Q", [-1]),
        ("lrs", [float("inf")]),
    ]:
        records = protocol.instruction_records(instruction())
        records["zorba"][name] = value
        with pytest.raises(ProtocolError, match="the server's instruction cannot be read"):
            protocol.read_instruction(records)


def test_scalars_arrive_to_the_bit_and_need_not_be_finite():
    rho_Q = np.array([1e-300, np.pi, np.nan, -np.inf])
    assert answer(protocol.answer_records({"replica_round": 3}, rho_Q)).scalars(4).tobytes() == rho_Q.tobytes()


def test_scalars_of_another_shape_or_kind_are_refused():
    for rho, says in [
        (np.zeros(3), r"scalars of shape \(3,\) where 4"),
        (np.zeros((4, 1)), r"of shape \(4, 1\)"),
        (np.zeros(4, np.float32), "float32 scalars"),
        (None, "no scalars that can be read"),
    ]:
        records = protocol.answer_records({"replica_round": 0})
        if rho is not None:
            records["scalars"] = ArrayRecord({"rho": Array(rho)})
        with pytest.raises(ProtocolError, match=says):
            answer(records).scalars(4)


def test_an_array_of_pickled_objects_is_not_opened():
    records = protocol.answer_records({"replica_round": 0})
    records["scalars"] = ArrayRecord({"rho": Array("object", (1,), "numpy.ndarray", b"\x80\x04N.")})
    with pytest.raises(ProtocolError, match="no scalars that can be read"):
        answer(records).scalars(1)


def test_an_answer_with_anything_else_is_refused():
    for records, read in [
        (RecordDict({}), lambda answer: answer),
        (RecordDict({"zorba": ConfigRecord({})}), lambda answer: answer),
        (protocol.answer_records({"replica_round": -1}), lambda answer: answer.whole("replica_round")),
        (protocol.answer_records({"replica_round": 2**60}), lambda answer: answer.whole("replica_round")),
        (protocol.answer_records({"replica_round": 1.0}), lambda answer: answer.whole("replica_round")),
        (protocol.answer_records({}), lambda answer: answer.number("loss")),
        (protocol.answer_records({"weights": 3}), lambda answer: answer.text("weights")),
        (protocol.answer_records({"prior_C": [0.5, float("nan")]}), lambda answer: answer.numbers("prior_C", 2)),
        (protocol.answer_records({"prior_C": [0.5]}), lambda answer: answer.numbers("prior_C", 2)),
    ]:
        with pytest.raises(ProtocolError):
            read(answer(records))


def test_a_client_gets_the_averages_that_it_has_not_seen():
    line = Line(2, [*averages(2), *averages(3, first=18)])  # the run went back to round 2
    assert line.end == 20
    assert [average.round for average in line.after(2)] == [18, 19, 20]
    assert len(line.after(0)) == 5  # a process that keeps nothing
    assert line.after(20) == ()


def test_a_round_costs_the_bytes_that_the_readme_states():
    def size(records: RecordDict) -> int:
        return sum(len(part.deflate()) for part in get_all_nested_objects(records).values())

    down, up = (
        protocol.instruction_records(instruction(prior_C=(), prompt="", prompts=(), rows=0)),
        protocol.answer_records({"replica_round": 9}, np.ones(Q)),
    )
    assert size(down) < 2_200
    assert size(up) < 1_150
    assert isinstance(up["zorba-numbers"], MetricRecord)
