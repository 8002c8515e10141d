"""``zorba allocate``, ``pareto``, ``scenario`` and ``vram`` in scripts: JSON, one line on stderr, exit status."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from tests.allocation.test_exact import fleet_budgets
from tests.command import call, check_refused, tree
from zorba_core.allocation import Status


def check_matrix(result: dict) -> None:
    A_MN = np.zeros((result["num_blocks"], result["num_clients"]), int)
    for client, blocks in enumerate(result["blocks_per_client"]):
        A_MN[blocks, client] = 1
    popularity_M = A_MN.sum(axis=1)
    least = [min(popularity_M[m] for m in blocks) for blocks in result["blocks_per_client"]]
    assert A_MN.sum(axis=0).min() >= 1
    assert (A_MN.sum(axis=0) <= result["budgets"]).all()
    assert popularity_M.tolist() == result["popularity"]
    assert least == result["least_popularity"]
    assert result["lambda"] == pytest.approx(sum(1 / value**2 for value in least))
    assert result["total_blocks"] == A_MN.sum()
    assert result["mean_inverse_popularity"] == pytest.approx((1 / popularity_M).mean())
    assert result["effective_clients"] == pytest.approx(1 / ((A_MN / popularity_M[:, None]).mean(axis=0) ** 2).sum())
    assert result["lower_bound"] <= result["lambda"]


def test_allocate_prints_one_json_object_whose_numbers_its_matrix_gives():
    for solver in ["balanced", "lexicographic", "two-level", "exact"]:
        status, out, err = call("allocate", "--budgets", "5,3,3,2,2,1", "--blocks", "5", "--solver", solver, "--json")
        result = json.loads(out)
        assert (status, err) == (0, "")
        check_matrix(result)
        assert result["gamma_star"] == 3
        assert result["vram_gib"] is None
        assert result["optimal"] or solver != "exact"


def test_allocate_from_a_model_gives_vram_of_each_client():
    status, out, _ = call("allocate", "--model", "opt-125m", "--clients", "8", "--seed", "3", "--total", "30", "--json")
    result = json.loads(out)
    assert status == 0
    check_matrix(result)
    assert result["total_blocks"] == 30
    assert len(result["vram_gib"]["per_client"]) == 8
    assert result["vram_gib"]["total"] == pytest.approx(sum(result["vram_gib"]["per_client"]))


def test_allocate_reads_a_fleet_and_saves_the_allocation(tmp_path):
    fleet = tmp_path / "fleet.csv"
    fleet.write_text("client,vram_gib\nlab,2.5\noffice,1.2\nlaptop,0.6\n")
    saved = tmp_path / "a.json"
    status, out, _ = call("allocate", "--fleet", str(fleet), "--save", str(saved))
    assert status == 0
    assert "office" in out
    assert len(json.loads(saved.read_text())["blocks_per_client"]) == 3


def test_wrong_request_is_one_line_on_stderr_and_status_2():
    for arguments, message in [
        ("allocate --budgets 1,1 --blocks 3", "1 short"),
        ("allocate --budgets 0,3 --blocks 3", "client 0 has 0"),
        ("allocate --budgets 2,x --blocks 3", "client 1: budget is 'x'"),
        ("allocate --budgets 2,2", "--blocks"),
        ("allocate --budgets 2,2 --blocks 2 --clients 3", "not both"),
        ("allocate --clients 3 --fleet a.csv", "not both"),
        ("allocate --fleet no-such.csv", "is not a file"),
        ("allocate", "give --budgets"),
        ("allocate --model gpt-9 --clients 3", "unknown model"),
        ("allocate --budgets 2,2 --blocks 2 --solver simplex", "--solver is 'simplex'"),
        ("allocate --budgets 2,2 --blocks 2 --total 3 --solver lexicographic", "does not support a total"),
        ("allocate --budgets 2,2 --blocks 2 --save a.xlsx", "ends in .json"),
        ("pareto --epsilons 0", "number of reductions"),
        ("pareto --by weight", "unknown sweep"),
        ("pareto --clients 3 --epsilons 1", "leaves room for all 12 blocks"),
        ("scenario --budgets 2,2,2 --blocks 2 --total 4 --target-lambda 0.01", "out of reach"),
        ("scenario --budgets 2,2,2 --blocks 2 --total 4", "--target-lambda"),
        ("scenario --budgets 2,2,2 --blocks 2 --name SC1", "capacities"),
        ("scenario --model opt-125m --clients 9 --name SC9", "unknown scenario"),
        ("vram --total-blocks 10", "total blocks is 10"),
        ("vram --model opt-9000b", "unknown model 'opt-9000b'"),
        ("vram --method lora", "unknown method 'lora'"),
        ("vram --dtype int4 --total-blocks 300", "--dtype is 'int4'"),
        ("allocate --model opt-125m --clients 1000000000", "number of clients is 1000000000; it must be from 1"),
        ("allocate --budgets 3,2 --blocks 1000000000", "1000000000 blocks for 2 clients are too many"),
        ("pareto --epsilons 1000000000", "1000000000 points for 50 clients are too many"),
        ("pareto --clients 1000000 --epsilons 1000", "1000 points for 1000000 clients are too many"),
        ("vram --clients 1000000000 --total-blocks 1000000000", "number of clients is 1000000000"),
    ]:
        status, out, err = call(*arguments.split())
        assert status == 2
        assert out == ""
        assert message in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("target", ["folder.json", "file/x.json"])
def test_a_place_where_nothing_can_be_written_is_refused_before_and_nothing_is_left(tmp_path, monkeypatch, target):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "file").write_text("")
    before = tree(tmp_path)
    for request_ in (
        "allocate --budgets 3,2 --blocks 3",
        "scenario --budgets 3,2 --blocks 3 --total 5 --target-lambda 1.25",
    ):
        left = call(*request_.split(), "--save", target)
        check_refused(left)
        assert left.status == 2
    assert tree(tmp_path) == before


def test_pareto_lists_points_with_their_place_on_the_front():
    request = "pareto --model opt-125m --clients 12 --epsilons 40 --solver balanced --json"
    status, out, _ = call(*request.split())
    result = json.loads(out)
    assert status == 0
    assert len(result["points"]) == 40
    assert {"tau", "total_blocks", "vram_ratio", "lambda", "on_front", "allocation_id"} <= set(result["points"][0])
    front = sorted((p["vram_ratio"], p["lambda"]) for p in result["points"] if p["on_front"])
    assert [value for _, value in front] == sorted((value for _, value in front), reverse=True)
    assert result["hypervolume"] > 0


def test_pareto_by_total_is_proven():
    arguments = ("pareto", "--clients", "12", "--by", "total", "--solver", "exact", "--epsilons", "5", "--json")
    points = json.loads(call(*arguments)[1])["points"]
    assert all(point["optimal"] and point["tau"] is None for point in points)


def test_scenario_by_name_and_by_target():
    named = json.loads(call("scenario", "--model", "opt-125m", "--clients", "50", "--name", "SC1", "--json")[1])
    check_matrix(named)
    assert named["lambda"] == pytest.approx(0.5, abs=1e-3)
    budgets = ",".join(map(str, named["budgets"]))
    total = str(named["total_blocks"])
    arguments = ("--budgets", budgets, "--blocks", "12", "--total", total, "--target-lambda", "0.7", "--json")
    given = json.loads(call("scenario", *arguments)[1])
    check_matrix(given)
    assert given["total_blocks"] == named["total_blocks"]
    assert given["lambda"] == pytest.approx(0.7, abs=1e-3)


def test_a_time_limit_and_a_tolerance_reach_the_solver():
    budgets = ",".join(map(str, fleet_budgets(24, seed=1)))
    request = f"allocate --budgets {budgets} --blocks 24 --total 450 --solver exact --time-limit 0.02 --json"
    hurried = json.loads(call(*request.split()).out)
    assert (hurried["optimal"], hurried["status"]) == (False, Status.TIME_LIMIT.value)
    request = "scenario --budgets 2,2,2 --blocks 2 --total 4 --target-lambda 0.7 --json --tolerance {}"
    assert json.loads(call(*request.format(0.06).split()).out)["lambda"] == pytest.approx(0.75)
    check_refused(call(*request.format(0.04).split()))


def test_vram_prints_one_json_object_and_nothing_else():
    command = ["vram", "--model", "opt-1.3b", "--seq-len", "256", "--total-blocks", "850", "--json"]
    done = subprocess.run([sys.executable, "-m", "zorba_core", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == ""
    result = json.loads(done.stdout)
    assert result["total_gib"] == pytest.approx(1583.55, abs=0.05)
    assert {"psi_model_gib", "psi_block_gib", "total_gib"} <= result.keys()
