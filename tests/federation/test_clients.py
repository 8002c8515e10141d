"""What a client's operator decides, and what a client keeps to itself."""

from __future__ import annotations

import logging

import pytest

import zorba_core as zorba
from tests.federation.conftest import Changed
from tests.runs.test_own_data import reviews
from zorba_core.data.infer import task_for
from zorba_core.data.task import table_of
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.federation.replica import NodeConfig
from zorba_core.federation.request import shared_task
from zorba_core.federation.server_app import serve
from zorba_core.federation.simulate import LocalGrid
from zorba_core.files import to_json


def test_a_wrong_node_config_is_named():
    for config, says in [
        ({}, "partition-id is None"),
        ({"partition-id": "1"}, "partition-id is '1'"),
        ({"partition-id": -1}, "partition-id is -1"),
        ({"partition-id": 0, "row": "mine.csv"}, "row is 'mine.csv'; the keys are partition-id, rows, data"),
        ({"partition-id": 0, "threads": "2"}, "threads is '2'"),
    ]:
        with pytest.raises(InvalidInputError, match=says):
            NodeConfig.of(config)


@pytest.fixture
def task(tmp_path):
    reviews().to_csv(tmp_path / "test.csv", index=False)
    rows = zorba.TableRows(None, test=str(tmp_path / "test.csv"), label="verdict", label_values=("bad", "good"))
    return task_for(zorba.Task(name="reviews", prompt="{remark} It was", rows=rows, label_names=("bad", "good")))


def served(ask, task, node):
    request = ask(task=to_json(table_of(task)), clients=1, budgets="3", **{"settings.rounds": 1, "start-timeout": 0.1})
    return serve(request, LocalGrid([node]))


def test_what_a_client_hears_names_no_file_and_what_it_answers_quotes_no_row(ask, nodes, task, tmp_path, caplog):
    bad = tmp_path / "bad.csv"
    bad.write_text("remark,verdict\nthe secret was lovely,dreadful\n")
    with caplog.at_level(logging.INFO, "zorba_core"), pytest.raises(RunError) as raised:
        served(ask, task, {**nodes[0], "rows": str(bad)})
    client = "zorba_core.federation.replica"
    assert "bad.csv, line 2: unknown label 'dreadful'" in caplog.text
    lines = [record.getMessage() for record in caplog.records if record.name != client]
    assert "do not fit the task reviews" in str(raised.value)
    assert not any(word in line for word in ("secret", "dreadful", "bad.csv") for line in (*lines, str(raised.value)))
    assert shared_task(task)["task"]["rows"] == {"label": "verdict", "label_values": ["bad", "good"]}


def test_an_answer_to_a_task_holds_scalars_a_loss_and_counts_and_nothing_else(ask, nodes):
    answers = []

    def kept(client, t, records):
        answers.append({name: dict(part) for name, part in records.items()})
        return records

    serve(ask({"rounds": 2}), Changed(nodes, kept))
    assert len(answers) == 2 * len(nodes)
    for answer in answers:
        assert answer.keys() == {"zorba", "zorba-numbers", "scalars"}
        assert answer["zorba"] == {}  # no text
        assert answer["zorba-numbers"].keys() == {"round", "loss", "passes", "replica_round"}
        assert {type(number) for number in answer["zorba-numbers"].values()} == {int, float}
        assert answer["scalars"].keys() == {"rho"}
        assert answer["scalars"]["rho"].shape == (3,)  # one for each direction


def test_a_client_without_a_file_is_turned_away(ask, nodes, task):
    with pytest.raises(RunError, match="operator has not set the file with its rows"):
        served(ask, task, nodes[0])


def test_a_client_loads_no_model_that_the_server_names(ask, nodes):
    with pytest.raises(RunError, match="operator has not set the folder of the base model"):
        serve(ask(clients=1, budgets="3"), LocalGrid([{"partition-id": 0}]))


def test_a_client_activates_no_more_blocks_than_its_operator_allows(ask, nodes):
    grid = LocalGrid([{**nodes[0], "blocks": 3}, *nodes[1:2], {**nodes[2], "blocks": 2}, nodes[3]])
    run = serve(ask(), grid)  # client 2 has three blocks
    assert [done.reported_N.tolist() for done in run.rounds[1:]] == [[True, True, False, True]] * 4
    reasons = {event["reason"] for done in run.rounds for event in done.events if event["what"] == "refused"}
    assert reasons == {"the client declines: the instruction has 3 blocks, and its operator allows 2"}
