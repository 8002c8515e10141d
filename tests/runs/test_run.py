"""Run folders as they are read: by Python, and by the command."""

from __future__ import annotations

import getpass
import json
import os
import platform
import shutil
import socket
import stat

import pytest

from tests.command import call, check_refused, tree
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.files import read_json, write_json
from zorba_core.runs import list_runs, read_run
from zorba_core.runs.record import environment_of, new_folder

ENVIRONMENT = {"torch": "2.13.0"}
CONFIG = {"dataset": "sst2", "model": "opt-mini", "seed": 0, "allocation": {}}


def test_metrics_are_totals_since_the_start(whole):
    run = read_run(whole.path)
    assert run.metrics["round"].tolist() == list(range(10))
    assert run.evaluations["round"].tolist() == [0, 3, 6, 9]
    passes = [done.forward_passes for done in run.rounds]
    assert run.metrics["forward_passes"].tolist() == [sum(passes[: t + 1]) for t in range(10)]
    assert run.metrics["train_loss"].isna().tolist() == [True] + [False] * 9
    assert run.summary["forward_passes"] == sum(passes)


def test_every_run_has_a_folder_of_its_own(tmp_path):
    paths = [new_folder(tmp_path, "sst2", CONFIG, ENVIRONMENT) for _ in range(3)]
    assert [path.name[13:] for path in paths] == ["", "-2", "-3"]
    assert len({path.name[:13] for path in paths}) == 1  # sst2- and eight digits of the config's hash
    other = new_folder(tmp_path, "sst2", {**CONFIG, "seed": 1}, ENVIRONMENT)
    assert other.name[:13] != paths[0].name[:13]


def test_the_folder_of_a_run_on_rows_of_ones_own_or_of_a_federation_is_its_owners_alone(tmp_path):
    for added, mode in [({}, 0o755), ({"task": {"name": "tickets"}}, 0o700), ({"federation": {}}, 0o700)]:
        before = os.umask(0o022)
        try:
            path = new_folder(tmp_path, "own", {**CONFIG, **added}, ENVIRONMENT)
        finally:
            os.umask(before)
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_name_that_is_no_folder_name_is_refused(tmp_path):
    for name in ["", "../escape", "a/b", ".hidden", "x" * 101, "a b"]:
        with pytest.raises(InvalidInputError, match="run name"):
            new_folder(tmp_path, name, CONFIG, ENVIRONMENT)
        assert list(tmp_path.iterdir()) == []


def test_a_runs_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="cannot be used"):
        new_folder(tmp_path / "file", "sst2", CONFIG, ENVIRONMENT)


def test_a_missing_run_is_named_with_those_that_look_alike(whole, tmp_path, monkeypatch):
    with pytest.raises(MissingDataError, match="does not exist"):
        read_run(tmp_path / "nothing")
    shutil.copytree(whole.path, tmp_path / "artifacts/runs/tickets-1")
    monkeypatch.chdir(tmp_path)
    assert read_run("tickets-1").rounds_done == 9
    with pytest.raises(MissingDataError, match=r"run 'ticket-1' does not exist; did you mean tickets-1\?"):
        read_run("ticket-1")


def test_a_run_answers_to_the_name_that_it_was_asked_to_have_while_no_other_has_it(whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(whole.path, tmp_path / "artifacts/runs/mine-1a2b3c4d")
    assert read_run("mine").name == "mine-1a2b3c4d"
    shutil.copytree(whole.path, tmp_path / "artifacts/runs/mine-5e6f7a8b")
    with pytest.raises(MissingDataError, match="did you mean mine-1a2b3c4d or mine-5e6f7a8b"):
        read_run("mine")


def test_the_newest_run_comes_first(whole, tmp_path):
    for name in ("a", "b"):
        shutil.copytree(whole.path, tmp_path / name)
    os.utime(tmp_path / "a" / "config.json", (1, 1))
    assert [run.name for run in list_runs(tmp_path).runs] == ["b", "a"]
    assert list_runs(tmp_path / "nowhere") == ((), ())


def test_one_damaged_run_hides_no_other(whole, tmp_path):
    shutil.copytree(whole.path, tmp_path / "healthy")
    damages = (
        ("summary.json", b'{"rounds_done": 9, "fin', "summary.json: not a JSON object"),
        ("config.json", b"[1]", "config.json: not a JSON object"),
        ("config.json", None, "not a run folder: it has no config.json"),
        ("config.json", b'{"dataset": "sst2"}', "config.json: it has no allocation"),
        ("rounds.jsonl", b'{"round":0}\n{"round":1}\n', "its first line does not match config.json"),
    )
    for number, (name, content, _) in enumerate(damages):
        damaged = shutil.copytree(whole.path, tmp_path / f"damaged-{number}")
        (damaged / name).unlink() if content is None else (damaged / name).write_bytes(content)
    left = call("runs", str(tmp_path), "--json")
    answer = json.loads(left.out)
    assert (left.status, [row["run"] for row in answer["runs"]]) == (0, ["healthy"])
    assert [says in problem for (_, _, says), problem in zip(damages, answer["problems"], strict=True)] == [True] * 5
    before = tree(tmp_path)
    for number in range(len(damages)):
        for command in ("resume", "replay"):
            check_refused(call(command, str(tmp_path / f"damaged-{number}")))
    assert tree(tmp_path) == before


def test_a_changed_config_is_named_and_nothing_is_written(whole, tmp_path):
    run = shutil.copytree(whole.path, tmp_path / "run")
    (run / "summary.json").unlink()
    (run / "config.json").write_text(json.dumps(read_json(run / "config.json") | {"num_clients": 4}))
    before = tree(tmp_path)
    for command in ("resume", "replay"):
        left = call(command, str(run))
        check_refused(left)
        assert "rounds.jsonl: its first line does not match config.json" in left.err
    assert tree(tmp_path) == before


def test_without_git_the_commit_is_unknown_and_nothing_fails(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    described = environment_of(Settings())
    assert (described["git_commit"], described["git_dirty"]) == (None, None)
    assert described["torch"]


def test_the_environment_names_no_host_and_no_user(monkeypatch):
    for module, function in [(platform, "node"), (socket, "gethostname"), (getpass, "getuser")]:
        monkeypatch.setattr(module, function, lambda: "secret-17")
    assert "secret-17" not in str(environment_of(Settings()))


def test_a_list_of_runs_reads_no_log_beyond_its_first_line(whole, tmp_path):
    for name in ("a", "b"):
        shutil.copytree(whole.path, tmp_path / name)
    log = bytearray((tmp_path / "a" / "rounds.jsonl").read_bytes())
    log[len(log) // 2] ^= 1
    (tmp_path / "a" / "rounds.jsonl").write_bytes(log)
    runs = {run.name: run for run in list_runs(tmp_path).runs}
    assert runs["a"].best_accuracy == runs["b"].best_accuracy == max(whole.evaluations["eval_accuracy"])
    assert runs["b"].rounds_done == 9
    with pytest.raises(InvalidInputError, match="is damaged"):
        read_run(runs["a"].path.parent / "a").metrics["round"]


def test_a_run_says_in_one_line_what_matters_and_shows_its_loss(whole):
    before, after = whole.summary["initial_accuracy"], whole.summary["final_accuracy"]
    scores = f"accuracy {before:.3f} → {after:.3f}"
    assert repr(whole) == f"Run({whole.name}: ZorBA on {whole.request.task.name}, 9 of 9 rounds, {scores})"
    page = whole._repr_html_()
    assert page.count("<svg") == page.count("<polyline") == 1
    assert len(page) < 4000


def test_a_run_of_a_method_that_is_not_registered_hides_no_other(whole, tmp_path):
    for name in ("mine", "known"):
        shutil.copytree(whole.path, tmp_path / name)
    config = read_json(tmp_path / "mine" / "config.json")
    write_json(tmp_path / "mine" / "config.json", {**config, "method": "momentum"})
    listing = list_runs(tmp_path)
    assert [run.name for run in listing.runs] == ["known"]
    assert listing.problems[0].endswith("its method 'momentum' is unknown here; import what registers it")


def test_a_run_of_another_layout_is_one_clear_line(whole, tmp_path):
    run = shutil.copytree(whole.path, tmp_path / "run")
    (run / "config.json").write_text(json.dumps(read_json(run / "config.json") | {"version": 99}))
    with pytest.raises(InvalidInputError, match=r"its layout is version 99, and this zorba_core reads version 1; use"):
        read_run(run)
