"""tests/plugin_example, installed: each of its parts is offered, trains, and survives a kill, with no other change."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.command import call
from tests.plugin_example.zorba_example import dice
from zorba_core.allocation import Problem, solve
from zorba_core.runs import read_run
from zorba_core.runs.log import LOG

pytestmark = pytest.mark.slow

OPTIONS = (
    "train --method momentum --solver dice --estimator central --dataset tickets --clients 4 --budgets 3,2,1,1 "
    "--rounds 24 --eval-every 8 --eval-rows 8 --batch-size 2 --seq-len 24 --lr 1e-3 --force --json"
)
CHOICES = """
import importlib.util, json, os, sys
from streamlit.testing.v1 import AppTest
sys.path.insert(0, os.getcwd())
app = AppTest.from_file(os.path.abspath("app/main.py"), default_timeout=400)
app.query_params["clients"] = "9"
app.run()
(page,) = app.get("bidi_component")  # its table has a row for each of these methods
shown = {"dashboard solver": list(json.loads(page.proto.json)["choices"]["methods"].values())}
app.switch_page("views/train.py").run()
for name in ("method", "estimator"):
    shown[f"dashboard {name}"] = app.selectbox(key=f"set_{name}").options
shown["dashboard dataset"] = app.selectbox(key="train_rows").options
assert not app.exception
assert not app.error
print(json.dumps(shown))
"""


@pytest.fixture(scope="module")
def environment(example_path, tmp_path_factory):
    """A process's environment in which the example is installed."""
    runs = str(tmp_path_factory.mktemp("runs"))
    return {**os.environ, "PYTHONPATH": example_path, "COLUMNS": "300", "ZORBA_RUNS": runs}


def run_python(environment, root, *arguments: str) -> str:
    """What Python prints; whatever stands on stderr is not about a plugin."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "plugin" not in done.stderr
    return done.stdout


def write_package(folder: Path, code: str, entry_points: str) -> str:
    """A PYTHONPATH with a package ``other`` of one module and these entry points, without a build."""
    facts = folder / "other-1.0.dist-info"
    facts.mkdir()
    (folder / "other.py").write_text(code)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(entry_points)
    return str(folder)


@pytest.fixture
def zorba(environment, root):
    return lambda *arguments: run_python(environment, root, "-m", "zorba_core", *arguments)


def test_the_example_is_short(root):
    files = [path for path in (root / "tests" / "plugin_example").rglob("*") if path.suffix in (".py", ".toml")]
    assert sum(len(path.read_text().splitlines()) for path in files) <= 90


def test_each_part_is_in_the_help_of_the_command(zorba):
    trains, allocates = (" ".join(zorba(name, "--help").replace("│", " ").split()) for name in ("train", "allocate"))
    dice = "dice: the balanced allocation with its blocks in a random order"
    assert dice in allocates
    assert dice in trains
    assert "momentum: the size of the block scalars carries over" in trains
    assert "central: differences to both sides" in trains
    assert "tickets" in trains
    allocated = zorba("allocate", "--budgets", "3,3,2,2,1", "--blocks", "4", "--solver", "dice")
    assert "solver dice" in allocated


def test_each_part_is_among_the_choices_of_the_dashboard(environment, root):
    shown = json.loads(run_python(environment, root, "-c", CHOICES).splitlines()[-1])
    expected = {"solver": "dice", "method": "momentum", "dataset": "tickets", "estimator": "central"}
    for place, choices in shown.items():
        assert any(choice.lower().startswith(expected[place.split()[1]]) for choice in choices), (place, choices)
    assert len(shown) == 4


def test_a_run_of_these_parts_is_killed_and_resumed_to_the_same_bits(
    zorba, environment, root, tiny_opt_folder, tmp_path, example_parts
):
    """The undisturbed run is made in this process, where no package of these parts is installed."""
    arguments = [*OPTIONS.split(), "--model", str(tiny_opt_folder)]
    whole = json.loads(call(*arguments, "--runs-folder", tmp_path / "whole").out)
    killed = subprocess.Popen(
        [sys.executable, "-m", "zorba_core", *arguments, "--runs-folder", str(tmp_path / "killed")],
        env=environment, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    log: list[Path] = []
    while killed.poll() is None and not (log and log[0].read_bytes().count(b"\n") > 3):
        log = list((tmp_path / "killed").glob(f"*/{LOG}"))
        time.sleep(0.002)
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    folder = str(log[0].parent)
    resumed = json.loads(zorba("resume", folder, "--json"))
    assert (resumed["method"], resumed["rounds_done"]) == ("momentum", 24)
    assert resumed["weights_sha256"] == whole["weights_sha256"]
    made = read_run(folder)
    assert made.config["allocation"]["solver"] == "dice"
    drawn = solve(Problem([3, 2, 1, 1], 3), dice, seed=made.config["seed"])
    assert np.array_equal(made.allocation.A_MN, drawn.allocation.A_MN)


def answer_with(path: str, environment, root, *arguments: str) -> tuple[str, list[str]]:
    """What ``zorba allocate`` prints with a package on the path, and its lines on stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "zorba_core", "allocate", *arguments],
        env=environment | {"PYTHONPATH": path}, cwd=root, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.splitlines()


def test_help_names_a_broken_solver_once_and_lists_the_others(tmp_path, environment, root):
    path = write_package(tmp_path, "import felt", "[zorba.solvers]\nodd = other:PART\n")
    printed, (warned,) = answer_with(path, environment, root, "--help")
    assert "two-level: a lower Λ" in printed
    assert warned.startswith("zorba: plugin odd of other (zorba.solvers, other:PART) is skipped: No module named")


def test_a_package_may_import_all_of_ours_while_it_is_loaded(tmp_path, environment, root):
    code = """
import app.scenario, zorba_core.cli, zorba_core.engine, zorba_core.plots, zorba_core.runs
from zorba_core.allocation import solve, solver
PART = solver("late", help="imports everything first")(lambda problem, options: solve(problem).allocation)
"""
    path = os.pathsep.join([write_package(tmp_path, code, "[zorba.solvers]\nlate = other:PART\n"), str(root)])
    arguments = ["-m", "zorba_core", "allocate", "--budgets", "3,2,1", "--blocks", "3", "--solver", "late"]
    assert "solver late" in run_python(environment | {"PYTHONPATH": path}, root, *arguments)


def test_listing_the_parts_of_packages_loads_no_torch(environment, root):
    code = (
        "import sys, zorba_core.allocation as allocation, zorba_core.data as data, zorba_core.engine as engine\n"
        "from zorba_core.engine.parts import METHODS\n"
        "names = [*allocation.SOLVERS, *data.TASKS, *engine.ESTIMATORS, *engine.AVERAGES, *METHODS]\n"
        "print('torch' in sys.modules, *names)"
    )
    loaded, *names = run_python(environment, root, "-c", code).split()
    assert loaded == "False"
    assert {"dice", "tickets", "central", "midway", "momentum"} <= {*names}
