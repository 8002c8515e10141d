"""``zorba train`` and ``runs`` as scripts use them, and Ctrl-C at any moment."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import numpy as np
import pytest

from tests.command import call, check_refused
from zorba_core.allocation import Allocation, write_allocation
from zorba_core.engine.parts import METHODS
from zorba_core.runs import list_runs, read_run

pytestmark = pytest.mark.usefixtures("rows_divided_once")


@pytest.fixture
def tiny(tiny_opt_folder, tmp_path) -> list[str]:
    """Options of a run that takes a moment: three blocks, toy reviews, few rounds."""
    where = ["--model", str(tiny_opt_folder), "--runs-folder", str(tmp_path / "runs")]
    size = ["--lr", "0.01", "--batch-size", "2", "--directions", "2", "--eval-rows", "20", "--eval-every", "2"]
    return where + size


@pytest.mark.slow
def test_training_prints_one_json_object_and_leaves_a_run(tiny):
    prompt = ("--prompt", "{text} I found it")
    code, out, err = call("train", *tiny, "--clients", "4", "--rounds", "3", *prompt, "--json")
    assert code == 0
    result = json.loads(out)
    run = read_run(result["run"])
    assert run.summary == {key: value for key, value in result.items() if key != "run"}
    assert result["seconds"] > 0
    assert (run.config["dataset"], run.config["prompt"], run.task.prompt) == ("toy-reviews", prompt[1], prompt[1])
    assert run.config["allocation"]["fleet"] == "uniform"
    assert run.allocation.num_clients == 4
    assert np.all(run.allocation.blocks_held_N <= np.array(run.config["allocation"]["budgets"]))
    assert "round 3/3" in err


@pytest.mark.slow
def test_budgets_fleet_and_equal_shares_decide_the_allocation(tiny, tmp_path):
    fleet = tmp_path / "fleet.csv"
    fleet.write_text("client,vram_gib\na,24\nb,24\n")
    for options, held in [
        (["--budgets", "3,1,2"], [3, 1, 2]),
        (["--budgets", "2", "--clients", "3"], [2, 2, 2]),
        (["--fleet", str(fleet)], [3, 3]),
        (["--budgets", "3,3,3", "--total", "5"], [2, 2, 1]),
    ]:
        code, out, _ = call("train", *tiny, "--rounds", "1", "--json", *options)
        assert code == 0
        assert sorted(read_run(json.loads(out)["run"]).allocation.blocks_held_N, reverse=True) == sorted(
            held, reverse=True
        )


def test_an_allocation_made_elsewhere_is_trained_as_it_is(tiny, tmp_path):
    made = Allocation(np.array([[1, 0, 0, 1], [1, 1, 0, 0], [0, 1, 1, 0]]))
    write_allocation(tmp_path / "plan.json", made)
    code, out, _ = call("train", *tiny, "--rounds", "1", "--allocation", str(tmp_path / "plan.json"), "--json")
    assert code == 0
    run = read_run(json.loads(out)["run"])
    assert np.array_equal(run.allocation.A_MN, made.A_MN)
    assert run.config["allocation"]["file"] == "plan.json"


def test_an_allocation_that_does_not_fit_is_refused(tiny, tmp_path):
    for blocks, options, says in [
        ([[1, 0], [0, 1]], [], "is for 2 blocks and the model has 3"),
        ([[1, 0], [1, 0], [1, 0]], [], "client 1 activates no block"),
        ([[1, 1], [1, 0], [0, 0]], [], "nobody activates block 2"),
        ([[1, 1], [1, 0], [0, 1]], ["--clients", "5"], "is for 2 clients, --clients is 5"),
    ]:
        write_allocation(tmp_path / "plan.json", Allocation(np.array(blocks)))
        code, _, err = call("train", *tiny, *options, "--allocation", str(tmp_path / "plan.json"))
        assert code == 2
        assert says in err
        assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_each_method_leaves_a_run_that_says_what_it_computed_and_sent(tiny, tmp_path):
    options = [*tiny[:8], *tiny[10:]]  # without --directions
    for method, work in (("zorba", 3), ("decomfl", 3), ("fedzo", 3), ("fedit", 3)):
        code, out, _ = call("train", "--method", method, *options, "--clients", "3", "--rounds", "2")
        assert code == 0, out
        assert METHODS[method].title in out
        run = next(run for run in list_runs(tmp_path / "runs").runs if run.config["method"] == method)
        assert run.summary["work"] == run.work.iloc[-1] == 2 * 3 * work
        assert run.summary["communication"]["method"] == method
    code, out, _ = call("runs", str(tmp_path / "runs"), "--json")
    assert {row["method"] for row in json.loads(out)["runs"]} == {"zorba", "decomfl", "fedzo", "fedit"}


def test_people_read_a_summary_and_a_list_of_runs(tiny, tmp_path):
    _, out, _ = call("train", *tiny, "--clients", "3", "--rounds", "2", "--target", "0.01")
    assert "before" in out
    assert "reached in round 0" in out
    (tmp_path / "runs" / "foreign").mkdir()
    code, out, err = call("runs", str(tmp_path / "runs"))
    assert code == 0
    assert "at target" in out
    assert "foreign: not a run folder" in err
    assert call("runs", str(tmp_path / "none"))[1].startswith("no runs in")


def test_a_wrong_request_gets_one_line_status_2_and_writes_nothing(tiny, tmp_path):
    for options, says in [
        (["--dataset", "mnist"], "--dataset is 'mnist'; choose one of sst2"),
        (["--model", "no-such"], "unknown model 'no-such'"),
        (["--lr", "nan"], "lr is 'nan'"),
        (["--lr", "-1"], "lr is '-1'"),
        (["--lr", "1e30"], "these settings cannot learn"),
        (["--estimator", "magic"], "estimator is 'magic'; choose one of cohort"),
        (["--mu", "0"], "mu is 0.0"),
        (["--rounds", "0"], "rounds is 0"),
        (["--clients", "0"], "--clients is 0"),
        (["--budgets", "3,2", "--fleet", "fleet.csv"], "not both"),
        (["--budgets", "3,2", "--clients", "5"], "names 2 clients"),
        (["--budgets", "3,9"], "client 1 has 9"),
        (["--budgets", "1,1"], "block"),
        (["--fleet", "none.csv"], "'none.csv' is not a file"),
        (["--label-words", "good,goodness"], "begins with the label word"),
        (["--seq-len", "65"], "64 positions"),
        (["--solver", "magic"], "--solver is 'magic'; choose one of"),
        (["--name", "a/b"], "run name 'a/b'"),
        (["--method", "fedavg"], "method is 'fedavg'; choose one of zorba, decomfl, fedzo, fedit"),
        (["--method", "fedit"], "directions is 2; fedit uses the gradient"),
        (["--method", "decomfl", "--solver", "exact"], "--solver is for --method zorba; decomfl activates every block"),
        (["--method", "fedzo", "--allocation", "a.json"], "--allocation is for --method zorba; fedzo activates every"),
        (["--allocation", "a.json"], "allocation 'a.json' is not a file; give one"),
        (["--allocation", "a.json", "--total", "5"], "give --allocation or --total, not both"),
        (["--method", "decomfl", "--clients", "1000000000"], "--clients is 1000000000; it must be at most 1000000"),
        (["--budgets", "2", "--clients", "1000000000"], "--clients is 1000000000; it must be at most 1000000"),
    ]:
        code, out, err = call("train", *tiny, *options)
        assert (code, out) == (2, "")
        assert says in err
        assert len(err.strip().splitlines()) == 1
        assert not (tmp_path / "runs").exists()


def test_a_missing_data_folder_is_said_with_status_2(tiny, monkeypatch, tmp_path):
    monkeypatch.setenv("ZORBA_DATA", str(tmp_path / "nothing"))
    code, _, err = call("train", *tiny, "--dataset", "sst2")
    assert code == 2
    assert "ZORBA_DATA" in err
    assert len(err.strip().splitlines()) == 1


def test_a_run_whose_rate_is_far_too_large_says_that_it_goes_back(tiny, tmp_path):
    code, out, err = call("train", *tiny, "--lr", "1e30", "--clients", "3", "--rounds", "4", "--force")
    assert code == 0
    assert "back to round 0, at half the rate" in err
    assert "taken from round 0" in out


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_done_and_leaves_with_status_1(tiny, tmp_path):
    command = [sys.executable, "-m", "zorba_core", "train", *tiny, "--clients", "3", "--rounds", "1000000"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in process.stderr:
        if line.startswith("round 2/"):
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=400)
    assert process.returncode == 1
    (run,), problems = list_runs(tmp_path / "runs")
    assert (problems, run.finished) == ((), False)
    assert run.rounds_done >= 2
    assert f"interrupted after round {run.rounds_done}; resume with: zorba resume {run.path}" in err


def test_ctrl_c_while_a_command_loads_is_one_line_and_status_1(monkeypatch, tmp_path):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("zorba_core.cli.use.list_runs", interrupted)
    left = call("runs", str(tmp_path))
    check_refused(left)
    assert left.status == 1


def test_ctrl_c_while_the_interpreter_cleans_up_changes_nothing():
    """What is registered before the command runs at its end: so this is pressed when everything has been reported."""
    code = (
        "import atexit, os, signal; from zorba_core.cli import main; "
        "atexit.register(os.kill, os.getpid(), signal.SIGINT); main()"
    )
    for arguments, status in ((["--version"], 0), (["nonsense"], 2)):
        ended = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=400)
        assert (ended.returncode, len((ended.stdout + ended.stderr).splitlines())) == (status, 1)


def test_one_or_two_clients_and_one_budget_for_all_train_without_a_word_of_budgets(tiny, tmp_path, monkeypatch):
    """Without --budgets and --fleet the suite draws the fleet itself: a refusal of it would blame nobody's values."""
    monkeypatch.setattr("zorba_core.runs.request.DEFAULT_CLIENTS", 5)
    for seed, options, clients in [(3, ["--clients", "1"], 1), (1, ["--clients", "2"], 2), (0, ["--budgets", "2"], 5)]:
        code, out, err = call("train", *tiny, "--rounds", "1", "--seed", seed, *options, "--force", "--json")
        assert code == 0, err
        run = read_run(json.loads(out)["run"])
        assert run.config["num_clients"] == clients
        assert run.allocation.min_popularity > 0
        if clients == 1:
            assert "note: the drawn fleet of 1 holds 1 of 3 blocks together; its clients get 3 (--fleet or" in err
        if clients == 5:
            assert run.config["allocation"]["budgets"] == [2] * 5
