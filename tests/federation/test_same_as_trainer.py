"""The protocol changes where things are computed, and no number."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import zorba_core as zorba
from tests.federation.conftest import all_equal
from tests.runs.test_option_runs import folder  # noqa: F401 - a fixture
from tests.runs.test_own_data import reviews
from zorba_core.data.infer import task_for
from zorba_core.data.task import table_of
from zorba_core.federation import client_app
from zorba_core.federation.server_app import serve
from zorba_core.federation.simulate import LocalGrid
from zorba_core.files import to_json
from zorba_core.runs.replay import replay


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"estimator": "cohort", "direction": "low-rank"},
        {"estimator": "cohort", "lora_rank": 2},
        {"schedule": "cosine", "participation": 0.5},
        {"method": "decomfl", "directions": 3},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())) or "reference",
)
def test_a_simulated_federation_has_the_trainers_bits(ask, nodes, in_one_process, changes):
    request = ask(changes)
    one, many = in_one_process(request), serve(request, LocalGrid(nodes))
    assert many.summary["weights_sha256"] == one.summary["weights_sha256"]
    assert all_equal(many)
    for ours, theirs in zip(many.rounds[1:], one.rounds[1:], strict=True):
        for name in ("seeds_Q", "rho_NQ", "status_N", "loss_N", "rho_bar_MQ"):
            assert getattr(ours, name).tobytes() == getattr(theirs, name).tobytes()
        for name in ("round", "lr", "forward_passes", "scalars_up", "scalars_down"):
            assert getattr(ours, name) == getattr(theirs, name)
    columns = ["round", "train_loss", "eval_loss", "eval_accuracy", "clients_reported"]
    assert many.metrics[columns].equals(one.metrics[columns])
    assert replay(many.path).network.weights_sha256() == many.summary["weights_sha256"]


@pytest.mark.usefixtures("example_parts")
def test_a_method_with_server_state_has_them_too(ask, nodes, in_one_process):
    request = ask({"method": "momentum", "estimator": "central"}, dataset="tickets")
    one, many = in_one_process(request), serve(request, LocalGrid(nodes))
    assert many.summary["weights_sha256"] == one.summary["weights_sha256"]
    assert all_equal(many)
    states = [[{name: value.tolist() for name, value in done.method_state.items()} for done in run.rounds[1:]]
              for run in (one, many)]  # fmt: skip
    assert states[0] == states[1]


def test_a_rate_in_units_of_the_scalars_and_the_centred_loss_have_them_too(ask, nodes, in_one_process):
    """The clients measure the preference of the weights of then; the rate follows from their scalars."""
    request = ask({"lr": "auto", "calibration": "batch", "schedule": "cosine", "estimator": "cohort"})
    one, many = in_one_process(request), serve(request, LocalGrid(nodes))
    assert [done.lr for done in many.rounds] == [done.lr for done in one.rounds]
    assert len({done.lr for done in many.rounds[1:]}) == 4
    for ours, theirs in zip(many.rounds[::2], one.rounds[::2], strict=True):
        assert ours.prior_C.tobytes() == theirs.prior_C.tobytes()
        assert ours.eval_loss == theirs.eval_loss
    assert many.summary["weights_sha256"] == one.summary["weights_sha256"]
    assert all_equal(many)


@pytest.mark.parametrize("resident", [True, False])
def test_a_run_that_goes_back_takes_its_clients_with_it(ask, nodes, in_one_process, monkeypatch, resident):
    request = ask({"lr": 1e30, "rounds": 6, "estimator": "cohort"})
    grid = LocalGrid(nodes)
    monkeypatch.setattr(client_app, "RESIDENT", resident)
    one, many = in_one_process(request), serve(request, grid)
    assert [done.after for done in many.rounds] == [done.after for done in one.rounds]
    assert any(done.after is not None for done in many.rounds)
    assert many.summary["weights_sha256"] == one.summary["weights_sha256"]
    assert all_equal(many)
    assert replay(many.path).network.weights_sha256() == many.summary["weights_sha256"]


@pytest.fixture
def own(tmp_path):
    """A file for each of three clients, and one to test on; the task of them."""
    frame = reviews()
    (tmp_path / "clients").mkdir()
    for branch, rows in frame.groupby("branch"):
        rows[["remark", "verdict"]].to_csv(tmp_path / "clients" / f"{branch}.csv", index=False)
    frame.assign(remark=frame["remark"] + " today").head(20).to_csv(tmp_path / "test.csv", index=False)
    rows = zorba.TableRows(str(tmp_path / "clients" / "*.csv"), test=str(tmp_path / "test.csv"), label="verdict")
    return task_for(zorba.Task(name="reviews", prompt="{remark} It was", rows=rows))


def of_task(task) -> dict:
    return {"task": to_json(table_of(task)), "clients": 3, "budgets": "3,2,2"}


@pytest.mark.parametrize("key", ["rows", "data"])
def test_clients_with_their_own_files_and_a_label_prior_are_a_run_on_all_files(
    own, ask, nodes, in_one_process, tmp_path, key
):
    request = ask({"calibration": "base"}, **of_task(own))
    files = sorted(map(str, (tmp_path / "clients").iterdir())) if key == "rows" else [own.rows.train] * 3
    grid = LocalGrid([{**node, key: file} for node, file in zip(nodes[:3], files, strict=True)])
    one, many = in_one_process(request), serve(request, grid)
    assert many.config["prior"] == one.config["prior"]
    assert many.summary["weights_sha256"] == one.summary["weights_sha256"]
    assert many.summary["final_loss"] == one.summary["final_loss"]
    assert all_equal(many, 3)
    assert many.predict(["the food was lovely"])["prediction"].tolist()[0] in ("good", "bad")
    assert many.evaluate().describe()["rows"] == 20


def test_the_clients_choose_the_prompt_as_in_one_process(own, ask, nodes, in_one_process):
    """Each sends a number a prompt; its rows get the words of the chosen one."""
    prompts = ("{remark} It was", "{remark}\nThe verdict is", "Remark: {remark} Verdict:", "{remark} So it was")
    task = replace(own, prompts=prompts)
    files = sorted(map(str, Path(own.rows.train).parent.iterdir()))
    request = ask({"calibration": "batch"}, **of_task(task))
    grid = LocalGrid([{**node, "rows": file} for node, file in zip(nodes[:3], files, strict=True)])
    one, many = in_one_process(request), serve(request, grid)
    table = many.environment["data"]["prompts"]
    assert table == one.environment["data"]["prompts"]
    assert many.task.prompt == table[0]["prompt"] == one.task.prompt
    assert sorted(entry["prompt"] for entry in table) == sorted(prompts)
    assert many.summary["weights_sha256"] == one.summary["weights_sha256"]
    assert all_equal(many, 3)


@pytest.mark.parametrize("kind", ["options", "text"])
def test_clients_with_their_own_files_choose_and_write_as_well(
    kind,
    folder,  # noqa: F811
    ask,
    nodes,
    in_one_process,
):
    files = {"train": str(folder / "clients" / "*.jsonl"), "test": str(folder / "test.csv")}
    of_kind = {
        "options": {"options": ("first", "it was {second}"), "label_names": ("one", "two")},
        "text": {"answer": "answer"},
    }
    source = zorba.TableRows(**files, label="right" if kind == "options" else None)
    task = zorba.Task(name="reasons", kind=kind, prompt="{remark} because", rows=source, **of_kind[kind])
    request = ask(**of_task(task))
    own = sorted(map(str, (folder / "clients").glob("*.jsonl")))
    grid = LocalGrid([{**node, "rows": rows} for node, rows in zip(nodes[:3], own, strict=True)])
    one, many = in_one_process(request), serve(request, grid)
    assert many.summary["weights_sha256"] == one.summary["weights_sha256"]
    assert many.environment["data"]["metric"] == ("accuracy" if kind == "options" else "exact_match")
