"""Clients with files of their own: each reads its own, the task comes from the server, and nothing of a row travels."""

from __future__ import annotations

import json
import logging

import pandas as pd
import pytest
from typer.testing import CliRunner

import zorba_core as zorba
from tests.runs.test_own_data import reviews
from zorba_core.allocation import Problem, solve
from zorba_core.cli import build_app
from zorba_core.data.own_task import task_for
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.federation.client import Client
from zorba_core.federation.client_settings import ClientSettings
from zorba_core.federation.config import RunConfig, ServerSettings, shared_task
from zorba_core.federation.in_process import InProcess
from zorba_core.federation.local_files import share_out
from zorba_core.federation.session import serve
from zorba_core.files import write_json

BLOCKS = (3, 2, 2)


@pytest.fixture
def clients_folder(tmp_path):
    """A file for each branch, of three formats that its operator chose."""
    frame = reviews().drop(columns="of")
    (tmp_path / "clients").mkdir()
    for branch, rows in frame.groupby("branch"):
        rows[["remark", "verdict"]].to_csv(tmp_path / "clients" / f"{branch}.csv", index=False)
    return tmp_path / "clients"


@pytest.fixture
def test_file(tmp_path):
    frame = reviews().head(20)
    frame["remark"] += " today"
    frame[["remark", "verdict"]].to_csv(tmp_path / "test.csv", index=False)
    return tmp_path / "test.csv"


@pytest.fixture
def task(clients_folder, test_file):
    rows = zorba.TableRows(str(clients_folder / "*.csv"), test=str(test_file), label="verdict")
    return task_for(zorba.Task(name="reviews", prompt="{remark} It was", rows=rows))


@pytest.fixture
def federate(tiny_opt_folder, train_settings, tmp_path):
    def make(task, rows_N, evaluate_on, **changes):
        config = RunConfig(
            dataset=task.name,
            model=str(tiny_opt_folder),
            label_words=task.label_words,
            num_clients=len(rows_N),
            alpha=1.0,
            settings=train_settings,
            task=shared_task(task),
            **changes,
        )
        own = {
            100 + seat: Client(ClientSettings(seat=seat, blocks=blocks, model=str(tiny_opt_folder), rows=rows))
            for seat, (blocks, rows) in enumerate(zip(BLOCKS, rows_N, strict=False))
        }
        settings = ServerSettings(min_clients=len(rows_N), start_timeout=0.01, deadline=1.0, evaluate_on=evaluate_on)
        lines = []
        run = lambda: serve(  # noqa: E731
            config, settings, InProcess(own), runs_folder=tmp_path / "many", force=True, tell=lines.append
        )
        return run, own, lines

    return make


def test_clients_with_their_own_files_train_as_a_run_on_all_files_does(
    task, federate, tiny_opt_folder, train_settings, tmp_path, clients_folder, test_file
):
    files = share_out(task, tmp_path / "place", 3, division=None, alpha=1.0, seed=0)
    assert files.rows == tuple(str(clients_folder / f"branch-{n}.csv") for n in range(3))
    assert files.evaluate_on == str(test_file)
    assert not (tmp_path / "place").exists()  # nothing was copied
    run, own, _ = federate(task, files.rows, files.evaluate_on)
    many = run()
    one = zorba.fine_tune(
        solve(Problem(BLOCKS, 3)).allocation,
        data=task,
        model=tiny_opt_folder,
        settings=train_settings,
        prior=False,  # which a federation does not estimate
        force=True,
        runs_folder=tmp_path / "one",
    )
    assert many.summary["weights_sha256"] == one.summary["weights_sha256"]
    assert many.summary["final_loss"] == one.summary["final_loss"]
    assert many.task.label_names == ("bad", "good")
    assert [len(client._rows) for client in own.values()] == one.environment["data"]["rows_per_client"]


def test_what_a_client_is_told_names_no_file_and_what_it_answers_quotes_no_row(
    task, federate, test_file, clients_folder, tmp_path, caplog
):
    bad = tmp_path / "bad.csv"
    bad.write_text("remark,verdict\nthe secret was lovely,dreadful\n")
    run, _, lines = federate(task, (str(bad), *sorted(map(str, clients_folder.glob("*.csv")))[1:]), str(test_file))
    with caplog.at_level(logging.WARNING, "zorba"), pytest.raises(RunError):
        run()
    assert "bad.csv, line 2: the label 'dreadful' is none of those trained on" in caplog.text
    told = next(line for line in lines if line.startswith("turned away"))
    assert "do not fit the task reviews" in told
    assert not any(word in told for word in ("secret", "dreadful", "bad.csv"))
    shared = json.loads(shared_task(task))
    assert shared["rows"] == {"label": "verdict", "label_values": ["bad", "good"]}
    assert str(clients_folder) not in json.dumps(shared)


def test_a_client_without_a_file_of_its_own_is_turned_away(task, federate, clients_folder, test_file):
    run, _, lines = federate(task, (None, *sorted(map(str, clients_folder.glob("*.csv")))[1:]), str(test_file))
    with pytest.raises(RunError):
        run()
    assert any("operator has not named the file with its rows" in line for line in lines)


def test_one_file_is_shared_out_as_a_run_in_one_process_divides_it(tiny_opt_folder, train_settings, federate, tmp_path):
    reviews().to_csv(tmp_path / "reviews.csv", index=False)
    rows = zorba.TableRows(str(tmp_path / "reviews.csv"), label="verdict")
    task = task_for(zorba.Task(name="reviews", prompt="{remark} It was", rows=rows))
    files = share_out(task, tmp_path / "place", 3, division="dirichlet", alpha=0.5, seed=train_settings.seed)
    texts = [set(pd.read_parquet(file)["remark"]) for file in files.rows]
    assert not set.intersection(*texts)
    assert not set.union(*texts) & set(pd.read_parquet(files.evaluate_on)["remark"])
    many = federate(task, files.rows, files.evaluate_on)[0]()
    one = zorba.fine_tune(
        solve(Problem(BLOCKS, 3)).allocation,
        data=task,
        alpha=0.5,
        model=tiny_opt_folder,
        settings=train_settings,
        prior=False,  # which a federation does not estimate
        force=True,
        runs_folder=tmp_path / "one",
    )
    assert many.summary["weights_sha256"] == one.summary["weights_sha256"]


@pytest.fixture
def resumed(task, federate, tmp_path, clients_folder, test_file, monkeypatch):
    """``zorba federation up --resume`` of a run on clients' own files, up to the start of its processes: the nodes."""
    pytest.importorskip("flwr")
    from zorba_core.federation.flower import loopback

    files = share_out(task, tmp_path / "place", 3, division=None, alpha=1.0, seed=0)
    done = federate(task, files.rows, files.evaluate_on)[0]()
    nodes = [{"blocks": 1, "model": done.config["model"], "rows": rows} for rows in files.rows]
    write_json(tmp_path / "place" / "nodes.json", nodes)
    started = []
    monkeypatch.setattr(loopback, "federate_on_loopback", lambda *args, **options: started.extend(args[2]) or done)
    monkeypatch.setattr("zorba_core.runs.resume.check_unfinished", lambda request: None)  # as one that was stopped

    def up(*options):
        words = ["federation", "up", "--resume", str(done.path), *options]
        CliRunner().invoke(build_app(), words, catch_exceptions=False)
        return started

    return up, nodes


def test_clients_that_are_resumed_with_other_capacities_read_their_own_files(resumed, tmp_path):
    up, nodes = resumed
    assert up("--folder", str(tmp_path / "place"), "--blocks", "3,2,2") == [
        {**node, "blocks": blocks} for node, blocks in zip(nodes, BLOCKS, strict=True)
    ]
    assert json.loads((tmp_path / "place" / "nodes.json").read_text())[1] == {**nodes[1], "blocks": 2}
    assert up("--folder", str(tmp_path / "place"))[3:] == [
        {**node, "blocks": blocks} for node, blocks in zip(nodes, BLOCKS, strict=True)
    ]


@pytest.mark.parametrize("place", [None, "another"])
def test_clients_whose_own_files_nothing_names_are_not_resumed(resumed, tmp_path, place):
    up, _ = resumed
    with pytest.raises(InvalidInputError, match=r"rows of their own; give the folder .*, with its nodes\.json"):
        up(*([] if place is None else ["--folder", str(tmp_path / place)]))


def test_the_server_needs_rows_of_its_own_to_evaluate_on(task, federate):
    with pytest.raises(InvalidInputError, match="no rows of task reviews to evaluate on; give a file of its own"):
        federate(task, ("a.csv",), "")[0]()
