"""What a client or a server does wrong costs that answer, or that process, and nothing else."""

from __future__ import annotations

import httpx
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Error, Message, RecordDict
from flwr.common.constant import ErrorCode

from tests.federation.conftest import Changed, all_equal
from tests.tiny_models import tiny_model
from zorba_core.engine.reports import ABSURD, MALFORMED, NON_FINITE, NOT_ASKED, REPORTED, SILENT
from zorba_core.errors import RunError
from zorba_core.federation import client_app, members
from zorba_core.federation.protocol import CATCH_UP, answer_records
from zorba_core.federation.request import ServerRequest
from zorba_core.federation.server_app import serve
from zorba_core.federation.simulate import LocalGrid
from zorba_core.runs import Run
from zorba_core.runs.record import Callback


def with_scalars(rho_Q) -> RecordDict:
    return answer_records({"round": 2, "loss": 1.0, "passes": 4, "replica_round": 1}, np.asarray(rho_Q))


def without_scalars() -> RecordDict:
    records = with_scalars(np.zeros(3))
    records["scalars"] = ArrayRecord({"other": Array(np.zeros(3))})
    return records


@pytest.mark.parametrize(
    ("records", "status", "says"),
    [
        (with_scalars([np.nan, 1.0, 1.0]), NON_FINITE, "its scalars are non-finite"),
        (with_scalars([1e9, 1.0, 1.0]), ABSURD, "its scalars are absurd"),
        (with_scalars([1.0, 1.0]), MALFORMED, "scalars of shape (2,) where 3 were asked for"),
        (without_scalars(), MALFORMED, "no scalars that can be read"),
        (RecordDict({}), SILENT, "its records are not the protocol's"),
        (
            answer_records({"replica_round": 1, "error": "my disk is full"}),
            SILENT,
            "the client declines: my disk is full",
        ),
        (answer_records({"round": 1, "loss": 1.0, "passes": 4, "replica_round": 1}), MALFORMED, "an answer of round 1"),
    ],
)
def test_nonsense_costs_that_answer_and_is_noted_with_client_and_reason(ask, nodes, records, status, says):
    grid = Changed(nodes, lambda client, t, given: records if (client, t) == (2, 2) else given)
    run = serve(ask(), grid)
    assert [done.status_N[2] for done in run.rounds[1:]] == [REPORTED, status, REPORTED, REPORTED]
    assert not run.rounds[2].rho_NQ[2].any()
    assert [done.reported_N.sum() for done in run.rounds[1:]] == [4, 3, 4, 4]
    (refused,) = [event for event in run.rounds[2].events if event["what"] == "refused"]
    assert (refused["client"], refused["round"]) == (2, 2)
    assert says in refused["reason"]
    assert all_equal(run)


def test_a_malformed_hash_at_the_end_costs_that_comparison(ask, nodes):
    class Grid(LocalGrid):
        def _answered(self, message, context):
            answer = super()._answered(message, context)
            if (message.metadata.message_type, context.node_config["partition-id"]) == (CATCH_UP, 2):
                answer.content = answer_records({"weights": 7, "replica_round": 4})
            return answer

    run = serve(ask(), Grid(nodes))
    assert [client["client"] for client in run.summary["replicas"]] == [0, 1, 3]
    assert all_equal(run, 3)
    assert {event["client"] for event in run.summary["events"] if event["what"] == "refused"} == {2}


def test_a_client_whose_code_fails_costs_that_answer(ask, nodes, monkeypatch):
    scalars = client_app.Client.scalars

    def fails(client, task):
        if (client.own.partition, task.round) == (1, 3):
            raise ZeroDivisionError("of its own")
        return scalars(client, task)

    monkeypatch.setattr(client_app.Client, "scalars", fails)
    run = serve(ask(), LocalGrid(nodes))
    assert [done.reported_N.sum() for done in run.rounds[1:]] == [4, 4, 3, 4]
    assert all_equal(run)


def test_a_silent_client_is_waited_for_once_and_its_blocks_are_the_others(ask, nodes):
    grid = Changed(nodes, lambda client, t, given: None if client == 0 and t > 1 else given)
    run = serve(ask(deadline=3.0), grid)
    assert [done.status_N[0] for done in run.rounds[1:]] == [REPORTED, SILENT, NOT_ASKED, NOT_ASKED]
    A_MN = run.allocation.A_MN & run.rounds[2].reported_N
    assert [bool(row.any()) for row in run.rounds[2].rho_bar_MQ] == A_MN.any(axis=1).tolist()
    assert all_equal(run, len(run.summary["replicas"]))


def test_a_late_answer_is_not_used_and_the_client_takes_part_again(ask, nodes):
    def change(client, t, given):
        if t == 3:
            grid.slow.clear()
            grid.deliver()
        return given

    grid = Changed(nodes, change)
    grid.slow.add(3)
    run = serve(ask({"rounds": 6}, deadline=3.0), grid)
    assert [done.status_N[3] for done in run.rounds[1:]][:2] == [SILENT, NOT_ASKED]
    assert run.rounds[6].status_N[3] == REPORTED
    assert any(event.get("reason") == "it came too late" for done in run.rounds for event in done.events)
    assert all_equal(run)


class Arrivals(Callback):
    """Nodes that appear or leave after a round."""

    def __init__(self, after, grid) -> None:
        self.after, self.grid = after, grid

    def on_round(self, done):
        self.after.get(done.round, lambda nodes: None)(self.grid.nodes)


def test_late_joiners_and_returners_catch_up_from_the_log(ask, nodes):
    grid = LocalGrid(nodes)
    away = {node: grid.nodes.pop(node) for node in (3, 4)}
    after = {1: lambda now: now.update(away), 3: lambda now: away.update({1: now.pop(1)}),
             4: lambda now: now.update({9: away[1]})}  # fmt: skip
    run = serve(ask({"rounds": 6}, **{"min-clients": 2}), grid, callbacks=[Arrivals(after, grid)])
    reported = [np.flatnonzero(done.reported_N).tolist() for done in run.rounds[1:]]
    assert reported[0] == [0, 1]
    assert reported[-1] == [0, 1, 2, 3]  # client 0 under another node
    events = [event for done in run.rounds for event in done.events]
    assert [(event["client"], event["reason"]) for event in events if event["what"] == "left"] == [
        (0, "its node is gone")
    ]
    assert all_equal(run)


def test_a_flower_process_for_each_message_is_rebuilt_from_all_averages(ask, nodes):
    whole = serve(ask(), LocalGrid(nodes))

    def forgets(client, t, given):
        client_app._run = ""  # the next message finds a new process
        return given

    grid = Changed(nodes, forgets)
    client_app.RESIDENT = False
    run = serve(ask(), grid)
    assert run.summary["weights_sha256"] == whole.summary["weights_sha256"]
    assert all_equal(run)


class PowerCut(Callback):
    def on_round(self, done):
        if done.round == 2:
            raise RunError("the server's machine lost power")


@pytest.mark.parametrize("replicas", ["there", "gone"])
def test_a_server_that_died_resumes_from_its_log(ask, nodes, tmp_path, replicas):
    whole = serve(ask(), LocalGrid(nodes))
    grid = Changed(nodes)
    with pytest.raises(RunError, match="lost power"):
        serve(ask(**{"runs-folder": str(tmp_path / "cut")}), grid, callbacks=[PowerCut()])
    (folder,) = (tmp_path / "cut").iterdir()
    if replicas == "gone":
        client_app._run = ""
    before = client_app._replica
    run = serve(ServerRequest.of({"resume": str(folder)}), grid)
    assert run.path == folder
    assert (client_app._replica is before) == (replicas == "there")
    assert [t for _, t in grid.asked] == [1] * 4 + [2] * 4 + [3] * 4 + [4] * 4  # no round is asked for again
    assert run.summary["weights_sha256"] == whole.summary["weights_sha256"]
    assert all_equal(run)
    assert Run.read(folder).finished


def test_of_two_nodes_with_one_place_the_later_has_it_and_a_stranger_is_turned_away(ask, nodes, logged):
    more = [*nodes, nodes[1], {**nodes[0], "partition-id": 7}]
    run, lines = serve(ask(), LocalGrid(more)), logged()
    assert any("client 1, reason another node has its partition-id" in line for line in lines)
    assert any("partition-id is 7; this run has 0 to 3" in line for line in lines)
    assert all(done.reported_N.all() for done in run.rounds[1:])
    assert sum(line.startswith("left") for line in lines) == 1


def test_a_client_with_another_base_model_is_turned_away(ask, nodes, tmp_path, tiny_tokenizer):
    for part in (tiny_model("opt", seed=1), tiny_tokenizer):
        part.save_pretrained(tmp_path / "other")
    grid = LocalGrid([{**nodes[0], "model": str(tmp_path / "other")}])
    with pytest.raises(RunError, match=r"0 of 1 clients joined .*its base model is not the server's"):
        serve(ask(clients=1, budgets="3"), grid)
    assert not (tmp_path / "federated").exists()  # nothing was written


def test_a_greeting_that_does_not_arrive_is_sent_again(ask, nodes):
    class Lossy(LocalGrid):
        def _answered(self, message, context):
            if message.metadata.message_type == "query.hello" and context.node_id == 2 and not lost:
                lost.append(message)
                return Message(Error(code=ErrorCode.MESSAGE_UNAVAILABLE, reason="lost"), reply_to=message)
            return super()._answered(message, context)

    lost: list[Message] = []
    run = serve(ask(**{"start-timeout": 60.0}), Lossy(nodes))
    assert all(done.reported_N.all() for done in run.rounds[1:])
    assert [event["what"] for event in run.rounds[1].events].count("out of reach") == 1


def test_too_few_clients_are_named(ask, nodes):
    with pytest.raises(RunError, match=r"2 of 4 clients joined within \d+ seconds; look at their logs"):
        serve(ask(), LocalGrid(nodes[:2]))


def test_a_superlink_that_is_gone_ends_the_run_with_advice(ask, nodes, monkeypatch):
    class Gone(LocalGrid):
        def get_node_ids(self):
            raise httpx.ConnectError("refused")

    monkeypatch.setattr(members, "_SECONDS_TO_RECOVER", 0.1)
    with pytest.raises(RunError, match=r"the SuperLink has not answered .* look at its log, then resume the run"):
        serve(ask(), Gone(nodes))


def test_a_round_in_which_nobodys_scalars_are_of_use_sends_the_run_back(ask, nodes):
    nonsense = with_scalars([np.nan] * 3)
    grid = Changed(nodes, lambda client, t, given: nonsense if t == 2 else given)
    run = serve(ask(), grid)
    assert (run.rounds[2].diverged, run.rounds[3].after) == (True, 0)  # back to the base model
    refused = [(event["client"], event["reason"]) for event in run.rounds[2].events if event["what"] == "refused"]
    assert refused == [(client, "its scalars are non-finite") for client in range(4)]
    assert all_equal(run)


def test_a_liar_moves_the_median_and_the_trimmed_mean_less(ask, nodes):
    def lies(client, t, given):
        if client == 2 and t == 1:
            given["scalars"] = ArrayRecord({"rho": Array(given["scalars"]["rho"].numpy() * 0 + 50.0)})
        return given

    blocks = "[[0,1,2],[0,1,2],[0,1,2],[0,1,2]]"
    everything = {"allocation": f'{{"blocks_per_client": {blocks}}}', "settings.rounds": 1}
    moved = {rule: np.abs(serve(ask({"rule": rule}, **everything), Changed(nodes, lies)).rounds[1].rho_bar_MQ).max()
             for rule in ("mean", "median", "trimmed")}  # fmt: skip
    assert moved["median"] < 0.5 * moved["mean"]
    assert moved["trimmed"] < 0.5 * moved["mean"]
