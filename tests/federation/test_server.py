"""The server continues whatever clients send, plans for the clients present, and logs who was refused and why."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.federation.conftest import BUDGETS
from tests.tiny_models import tiny_model
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.reports import MALFORMED, NON_FINITE, NOT_ASKED, OUTLIER, REPORTED
from zorba_core.federation import messages
from zorba_core.federation.config import ServerSettings
from zorba_core.federation.membership import Incoming
from zorba_core.federation.messages import Refusal, Registration, RoundAnswer, Standing, encode
from zorba_core.federation.server import Server
from zorba_core.federation.session import NoteBook

Q = 3


@pytest.fixture
def notes() -> list[tuple[str, dict]]:
    return []


@pytest.fixture
def make_server(make_config, notes):
    def make(budgets=BUDGETS, **changes) -> Server:
        network = Blocks(tiny_model("opt"))
        server = Server(
            make_config(num_clients=4), ServerSettings(**changes), network,
            lambda what, content: notes.append((what, content)),
        )  # fmt: skip
        for seat, blocks in enumerate(budgets):
            register(server, seat, blocks=blocks)
        server.replan()
        return server

    return make


@pytest.fixture
def server(make_server) -> Server:
    return make_server()


def register(server: Server, seat: int, /, address: int | None = None, present: tuple = (), **changes) -> None:
    asked = {"run": server.run, "seat": seat, "round": 0, "base_sha256": server._base_sha256, "rows": 9}
    reply = Registration(**{**asked, "vram_bytes": 0, "blocks": 1, **changes})
    server.register(Incoming(100 + seat if address is None else address, encode(reply)), present)


def good(server: Server, seat: int, /, **changes) -> Incoming:
    answer = RoundAnswer(server.run, seat, server.rounds_done + 1, np.array([0.1, -0.2, 0.3]) * (seat + 1), 0.7, 1 + Q)
    return Incoming(100 + seat, encode(replace(answer, **changes)))


BAD = {
    "NaN": ({"rho_Q": np.array([0.1, math.nan, 0.1])}, NON_FINITE, "non-finite"),
    "infinity": ({"rho_Q": np.array([0.1, math.inf, 0.1])}, NON_FINITE, "non-finite"),
    "a loss that is no number": ({"loss": math.nan}, NON_FINITE, "non-finite"),
    "1e30": ({"rho_Q": np.array([1e30, 0.1, 0.1])}, 3, "absurd"),
    "a thousand times too large": ({"rho_Q": np.array([900.0, 900.0, 900.0])}, OUTLIER, "outlier"),
    "too few scalars": ({"rho_Q": np.array([0.1])}, MALFORMED, "1 scalars where 3 were expected"),
    "too many scalars": ({"rho_Q": np.zeros(4000)}, MALFORMED, "4000 scalars"),
    "a stale round": ({"round": 7}, MALFORMED, "stale answer, of round 7"),
    "another's seat": ({"seat": 0}, MALFORMED, "for seat 0 instead of 3"),
    "another run": ({"run": "0" * 64}, MALFORMED, "another run"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_answer_is_refused_with_its_reason_and_the_others_are_averaged(make_server, notes, name):
    changes, status, reason = BAD[name]
    server = make_server()
    plan, outgoing = server.begin_round()
    assert len(outgoing) == 4
    done = server.conclude_round(plan, [*(good(server, seat) for seat in (0, 1, 2)), good(server, 3, **changes)])
    assert done.status_N.tolist() == [REPORTED, REPORTED, REPORTED, status]
    refused = [content for what, content in notes if what == "refused"]
    assert [(note["client"], note["seat"], note["round"]) for note in refused] == [("103", 3, 1)]
    assert reason in refused[0]["reason"]
    for m, A_N in enumerate(server.plan.allocation.A_MN):
        answered = [seat for seat in range(3) if A_N[seat]]
        expected = (
            np.mean([np.array([0.1, -0.2, 0.3]) * (seat + 1) for seat in answered], axis=0) / Q if answered else 0
        )
        np.testing.assert_allclose(done.rho_bar_MQ[m], expected)


def test_a_second_answer_in_a_round_does_not_replace_the_first(make_server, notes):
    server = make_server()
    plan, _ = server.begin_round()
    done = server.conclude_round(plan, [good(server, 0), good(server, 0, rho_Q=np.full(Q, 9.0)), good(server, 1)])
    assert done.rho_NQ[0].tolist() == [0.1, -0.2, 0.3]
    assert [content["reason"] for what, content in notes if what == "refused"] == ["a second answer in one round"]


def test_a_round_without_a_usable_answer_leaves_the_weights_and_is_tried_again(make_server):
    server = make_server()
    before = server.network.weights_sha256()
    plan, _ = server.begin_round()
    assert server.conclude_round(plan, [good(server, 0, loss=math.inf)]) is None
    assert server.network.weights_sha256() == before
    again, _ = server.begin_round()
    assert again.round == plan.round
    assert (again.seeds_Q == plan.seeds_Q).all()


def test_a_client_that_is_silent_too_long_leaves_and_the_rest_is_planned_anew(make_server, notes):
    server = make_server(patience=2)
    for _ in range(2):
        plan, _ = server.begin_round()
        server.conclude_round(plan, [good(server, seat) for seat in (0, 1, 2)])
    assert [member.seat for member in server.members] == [0, 1, 2]
    assert server.replan()
    assert not server.plan.blocks(3)
    assert server.plan.allocation.popularity_M.min() >= 1
    plans = [content for what, content in notes if what == "plan"]
    assert [plan["budgets"] for plan in plans] == [
        {"0": 2, "1": 1, "2": 3, "3": 1},
        {"0": 2, "1": 1, "2": 3},
    ]  # the old one stays in the log
    assert not server.replan()


def test_a_client_whose_answers_cannot_be_used_loses_its_place(make_server, notes):
    server = make_server(patience=2)
    for _ in range(2):
        plan, _ = server.begin_round()
        server.conclude_round(plan, [good(server, seat) for seat in (0, 1, 2)] + [good(server, 3, loss=math.nan)])
    assert [member.seat for member in server.members] == [0, 1, 2]
    assert server.greetings([103]) == []
    assert [content["reason"] for what, content in notes if what == "left"] == ["no usable answer in 2 rounds in a row"]
    assert server.rounds_done == 2


def test_a_client_far_behind_that_never_follows_loses_its_seat_and_the_run_goes_on(make_config, monkeypatch):
    settings = make_config().settings.replace(participation=0.25, rounds=12)
    server = Server(make_config(settings), ServerSettings(), Blocks(tiny_model("opt")), lambda *note: None)
    for seat in range(4):
        register(server, seat, blocks=3)
    server.replan()
    monkeypatch.setattr("zorba_core.federation.server.MAX_NUMBERS", 2 * 3 * Q)  # two rounds a message
    for _ in range(60):
        plan, outgoing = server.begin_round()
        incoming = []
        for item in outgoing:
            seat = server.members[item.address].seat
            if seat == 3 and server.rounds_done >= 3:
                incoming.append(Incoming(item.address, encode(Standing(server.run, 3, 0, "0" * 64))))
            elif item.kind == messages.CATCH_UP:
                reached = messages.decode(item.payload, messages.CatchUp).averages[-1].round
                incoming.append(Incoming(item.address, encode(Standing(server.run, seat, reached, "0" * 64))))
            else:
                incoming.append(good(server, seat))
        server.conclude_round(plan, incoming)
        server.replan()
        if server.rounds_done == settings.rounds:
            break
    assert server.rounds_done == settings.rounds
    assert 3 not in [member.seat for member in server.members]


def test_a_fleet_too_small_for_every_block_goes_on_with_the_blocks_it_has(make_server, notes):
    server = make_server()
    for seat in (0, 2, 3):
        server.leave(100 + seat, "test")
    old = server.plan.blocks(1)
    assert server.replan()
    assert server.plan.blocks(1) == old
    assert server.plan.shortage
    plan, outgoing = server.begin_round()
    before = [server.network.block_weights(m).clone() for m in range(3)]
    server.conclude_round(plan, [good(server, 1)])
    moved = [not torch.equal(before[m], server.network.block_weights(m)) for m in range(3)]
    assert moved == [m in old for m in range(3)]
    assert len(outgoing) == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"base_sha256": "0" * 64}, "base model"),
        ({"run": "0" * 64}, "another run"),
        ({"seat": 4}, "not one of the 4"),
        ({"round": 5}, "stands at round 5"),
        ({"vram_bytes": 10, "blocks": 0}, "its 9.31e-09 GiB cannot hold the model and one block, which need 0.000"),
        ({"blocks": 0}, "neither how many blocks"),
    ],
)
def test_a_registration_that_does_not_fit_is_turned_away_once(make_server, notes, changes, reason):
    server = make_server(budgets=(3, 3))
    register(server, 3, address=7, present=(100, 101, 7), **changes)
    assert 7 not in server.members
    assert [reason in content["reason"] for what, content in notes if what == "turned away"] == [True]
    assert not server.greetings([100, 101, 7])


def test_a_capacity_in_bytes_becomes_whole_blocks(make_server):
    server = make_server(budgets=(3,))
    from zorba_core.vram import Workload, psi_block_bytes, psi_model_bytes

    work = Workload(batch_size=4, seq_len=32, dtype="float32")
    need = psi_model_bytes(server._spec, work) + 2 * psi_block_bytes(server._spec, work)
    register(server, 1, vram_bytes=need + 1, blocks=0)
    assert server.members.at(1).budget == 2


def test_a_client_that_comes_back_takes_its_seat_from_a_connection_that_is_gone(make_server, notes):
    server = make_server()
    register(server, 2, address=555, present=(100, 101, 103, 555), blocks=3)
    assert server.members.at(2).address == 555
    assert ("left", "102") in [(what, content["client"]) for what, content in notes if what == "left"]


def test_a_second_client_for_a_seat_waits_until_the_first_owes_an_answer(make_server, notes):
    server = make_server()
    for _ in range(2):
        register(server, 2, address=7, present=(100, 101, 102, 103, 7))
        assert server.members.at(2).address == 102
        assert [one.address for one in server.greetings([102, 7])] == [7]
    assert [what for what, _ in notes].count("waiting") == 1
    plan, _ = server.begin_round()
    server.conclude_round(plan, [good(server, 0)])
    register(server, 2, address=7, present=(100, 101, 102, 103, 7))  # 102 is listed still, though it is dead
    assert server.members.at(2).address == 7


def test_a_client_far_behind_gets_averages_until_it_can_take_part(make_server, monkeypatch):
    server = make_server()
    for _ in range(5):
        plan, _ = server.begin_round()
        server.conclude_round(plan, [good(server, seat) for seat in range(4)])
    server.members.update(103, round=0)
    monkeypatch.setattr("zorba_core.federation.server.MAX_NUMBERS", 2 * 3 * Q)  # two rounds a message
    plan, outgoing = server.begin_round()
    sent = {one.address: one for one in outgoing}
    assert [len(messages.decode(sent[103].payload, messages.CatchUp).averages), sent[103].kind] == [
        2,
        messages.CATCH_UP,
    ]
    standing = Incoming(103, encode(Standing(server.run, 3, 2, "0" * 64)))
    done = server.conclude_round(plan, [*(good(server, seat) for seat in range(3)), standing])
    assert done.status_N.tolist() == [REPORTED, REPORTED, REPORTED, NOT_ASKED]
    assert server.members[103].round == 2


def test_a_client_that_says_where_it_stands_is_helped_from_there(make_server):
    server = make_server()
    plan, _ = server.begin_round()
    server.conclude_round(plan, [good(server, seat) for seat in range(4)])
    plan, _ = server.begin_round()
    declined = Incoming(102, encode(Refusal(server.run, 2, 0, "averages continue at round 1")))
    server.conclude_round(plan, [good(server, 0), declined])
    assert server.members[102].round == 0


def test_words_of_a_client_are_shown_without_what_moves_a_terminal_s_cursor():
    shown: list[str] = []
    NoteBook(shown.append)("refused", {"client": "103", "reason": "x\x1b[2J\x1b]0;title\x07\nround 99/99\u202e"})
    assert shown == ["refused: client 103, reason x [2J ]0;title  round 99/99 "]
