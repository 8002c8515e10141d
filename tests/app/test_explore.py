"""The page Explore without a browser: what the core answers, and what the files say."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np
import pytest

from app.parts import downloads, fleets
from app.parts.answers import data_of, list_of_text
from app.parts.doubt import measured
from app.scenario import SHAPES, Scenario
from tests.app.conftest import texts
from tests.command import call
from zorba_core.allocation import Allocation
from zorba_core.errors import InvalidInputError


def answered(scenario: Scenario) -> dict:
    """The data of a scenario once every method has answered."""
    study = fleets.study(scenario.fleet)
    deadline = time.monotonic() + 300
    while (data := data_of(scenario, study))["waiting"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return data


def matrix(answer: dict) -> np.ndarray:
    return np.array([[cell == "1" for cell in row] for row in answer["rows"]])


@pytest.mark.parametrize("shape", SHAPES)
def test_the_page_opens_with_every_shape_and_the_server_leaves_the_address_to_the_browser(app, shape):
    app.query_params["shape"] = shape
    texts(app.run())
    assert dict(app.query_params) == {"shape": shape}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_method_answers_with_no_more_blocks_than_the_limit_and_no_less_lambda_than_the_bound(shape):
    scenario = Scenario(shape=shape, clients=20, total=70)
    study = fleets.study(scenario.fleet)
    answers = {**answered(scenario)["answers"], **answered(scenario.replace(follow="two-level"))["answers"]}
    assert set(answers) == {"balanced", "two-level", "paper", "exact"}
    for answer in filter(None, answers.values()):
        A = Allocation(matrix(answer))
        assert (A.total_blocks, A.bias_lambda) == (answer["total"], pytest.approx(answer["lambda"]))
        assert study.complaints(A) == []
        assert answer["total"] <= study.total(scenario)
        assert answer["lambda"] >= answers["exact"]["bound"] * (1 - 1e-9) >= study.bound(70) * (1 - 2e-9)


def test_the_papers_curve_is_that_of_the_command_with_the_point_of_no_reduction():
    fleet = ("--model", "opt-125m", "--clients", 12, "--seed", 0, "--solver", "lexicographic", "--json")
    data = answered(Scenario(clients=12, follow="paper"))
    left = call("pareto", *fleet, "--tau", "vector", "--epsilons", fleets.CURVE_POINTS)
    front = sorted((p["total_blocks"], p["lambda"]) for p in json.loads(left.out)["points"] if p["on_front"])
    curve = [tuple(point) for point in data["paper_curve"]]
    assert set(curve) - set(front) <= {curve[-1]}
    assert len(set(front) - set(curve)) <= 1  # no reduction may be better than the least one that was drawn
    whole = json.loads(call("allocate", *fleet).out)
    assert curve[-1][1] <= whole["lambda"]


@pytest.mark.parametrize("total", [16, 40, 60, 78])
def test_the_papers_matrix_is_that_of_the_command_for_the_reduced_budgets(total):
    scenario = Scenario(clients=12, follow="paper", total=total)
    study = fleets.study(scenario.fleet)
    solution = study.solution("paper", total)
    budgets = ",".join(map(str, solution.problem.budget_N))
    left = call("allocate", "--budgets", budgets, "--blocks", 12, "--solver", "lexicographic", "--seed", 0, "--json")
    allocation = Allocation.from_blocks(json.loads(left.out)["blocks_per_client"], 12)
    assert (matrix(answered(scenario)["answers"]["paper"]) == allocation.A_MN).all()
    assert allocation.total_blocks <= total


def test_the_balanced_matrix_is_called_balanced_and_is_not_the_papers():
    study = fleets.study(Scenario().fleet)
    even, paper = (study.solution(name, 150) for name in ("balanced", "paper"))
    assert (even.solver, paper.solver) == ("balanced", "lexicographic")
    assert (even.allocation.A_MN != paper.allocation.A_MN).any()


def test_a_fleet_in_which_every_client_trains_every_block_starts_at_the_right_end():
    study = fleets.study(Scenario(shape="list", rows=((9.0, 6),)).fleet)
    assert study.total(Scenario()) == study.most == 72


def test_a_kept_fleet_stays_in_the_data_and_one_without_an_allocation_does_not():
    kept = ("0|two, 30 %|shape=two&large=30", "2|x|shape=list&rows=0.1x5", "9|y|seed=3")
    (fleet,) = answered(Scenario(compared=kept))["kept"]
    assert (fleet["slot"], fleet["name"], fleet["clients"]) == ("A", "two, 30 %", 50)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("1 x 20, 1.5, 1.9 x 3", ((1.0, 20), (1.5, 1), (1.9, 3))),
        ("0.7\n0.7\n0.9", ((0.7, 2), (0.9, 1))),
    ],
)
def test_numbers_that_are_typed_become_rows(text, rows):
    assert fleets.rows_of_file(list_of_text(text)) == rows


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"name, memory.total [MiB]\nNVIDIA L4, 23034 MiB\nTesla T4, 15360 MiB\n", ((15.0, 1), (22.494, 1))),
        (b"memory_gb\n24\n24 GB\n", ((22.352, 2),)),
        (b"client;vram_mib\na;24564\n", ((23.988, 1),)),
        (b"0.7 0.9\n1.1", ((0.7, 1), (0.9, 1), (1.1, 1))),
        (b"24\n16\n16\n", ((16.0, 2), (24.0, 1))),
    ],
)
def test_a_file_may_have_gb_or_mib_or_be_a_bare_list_of_numbers(content, rows):
    assert fleets.rows_of_file(content) == rows


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"\x89PNG\r\n", b"a;b\n1;2\n", b"client,vram_gib\na,eight\n", b"PK\x03\x04\x00"),
        *(b"GiB,clients\n1.5,20000\n", b"GiB\n100000000\n"),  # a fleet, but more than a page can draw
    ],
)
def test_a_file_that_is_no_fleet_is_refused_in_one_sentence(content):
    with pytest.raises(InvalidInputError) as refused:
        fleets.rows_of_file(content)
    assert "ploaded table" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_doubt_has_the_reproductions_runs_and_names_them(root):
    claim = next(c for c in json.loads((root / "artifacts/claims.json").read_text()) if c["id"] == "lambda/ranks")
    doubt = measured()
    count = len(doubt["points"])
    assert f"{count} allocations" in claim["measured"]
    assert f"opt-mini on SST-2, 20 clients, {count} allocations of 80 blocks" in doubt["source"]
    assert all(point["low"] < point["loss"] < point["high"] for point in doubt["points"])
    answers = {"undecided": "cannot tell yet", "in shape": "yes, somewhat", "not seen on our models": "not seen"}
    assert doubt["title"] == f"Measured: {answers[claim['verdict']]}."


SHOWN = [
    Scenario(clients=9, total=40),
    Scenario(clients=9, total=40, follow="two-level", flips="0.0_3.2"),
    Scenario(clients=9, total=40, follow="paper"),
    Scenario(clients=9, total=30, follow="exact", batch=4),
]


@pytest.mark.parametrize("scenario", SHOWN, ids=lambda scenario: scenario.follow)
def test_the_program_prints_the_two_numbers_of_the_page(scenario, root, tmp_path):
    study, _, allocation = fleets.planned(scenario)
    file = tmp_path / "page.py"
    file.write_text(downloads.python_of(scenario))
    said = subprocess.run([sys.executable, str(file)], cwd=root, capture_output=True, text=True, check=True).stdout
    gib, value = f"{study.used_gib(allocation):.1f}", f"{allocation.bias_lambda:.3g}"
    assert said == f"{gib} GiB, Lambda {value}, solved again: {value}\n"


def test_the_json_is_an_allocation_with_its_numbers_and_names_an_idle_client(tmp_path):
    scenario = Scenario(clients=9, total=40, seed=2)
    cells = [block for block in range(12) if fleets.planned(scenario)[2].A_MN[block, 4]]
    scenario = scenario.replace(flips="_".join(f"{block}.4" for block in cells))
    content = downloads.matrix_of(scenario)
    assert content["lambda"] == float("inf")
    assert content["blocks_per_client"][4] == []
    assert content["problems"] == ["Without a block: client 4."]
    assert (content["model"], content["seed"], len(content["vram_gib"])) == ("opt-125m", 2, 9)
    assert content["changed_by_hand"] == [(block, 4) for block in cells]
    assert "Without a block, so that Lambda is infinite: client 4." in downloads.python_of(scenario)
