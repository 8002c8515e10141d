"""Real SuperNodes on loopback: the weights of the simulation, and nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.command import call
from tests.federation.conftest import all_equal
from tests.runs.test_own_data import reviews
from zorba_core.runs import read_run

GENEROUS = 600  # seconds, on a busy machine
WORDS = (
    "--budgets 3,2 --rounds 2 --lr 1e-3 --directions 3 --batch-size 4 --seq-len 32 --eval-every 2 --eval-rows 20 "
    "--estimator reference --start-timeout 500 --deadline 500 --force --json"
)


def started(place: Path, model: Path, *words: str) -> subprocess.Popen:
    """The command, whose Flower processes have their files below ``place``. It must not ask the proxy, where nobody
    listens, for this machine."""
    command = [sys.executable, "-m", "zorba_core", "federate", "--model", str(model), *words, *WORDS.split()]
    (place / "tmp").mkdir()
    environment = {**os.environ, "TMPDIR": str(place / "tmp"), "http_proxy": "http://127.0.0.1:9", "no_proxy": ""}
    command += ["--runs-folder", str(place / "runs")]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def processes(place: Path) -> list[str]:
    """Commands of the processes that live and have a file below ``place`` in their environment or command."""
    living = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            said = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
            if str(place / "tmp").encode() in said and "Z" not in (process / "stat").read_text().split(")")[1][:3]:
                living.append((process / "cmdline").read_text())
        except OSError:
            continue
    return living


def await_gone(place: Path) -> None:
    until = time.monotonic() + GENEROUS
    while processes(place) and time.monotonic() < until:
        time.sleep(0.1)
    assert processes(place) == []


@pytest.mark.slow
def test_two_supernodes_each_with_its_own_file_end_with_the_simulations_weights(tmp_path, tiny_opt_folder):
    frame = reviews()
    (tmp_path / "clients").mkdir()
    for name, rows in (("north", frame[:30]), ("south", frame[30:])):
        rows[["remark", "verdict"]].to_csv(tmp_path / "clients" / f"{name}.csv", index=False)
    frame.head(20).to_csv(tmp_path / "test.csv", index=False)
    data = ["--data", str(tmp_path / "clients" / "*.csv"), "--test", str(tmp_path / "test.csv"), "--label", "verdict"]
    process = started(tmp_path, tiny_opt_folder, *data)
    answer, said = process.communicate(timeout=GENEROUS)
    assert process.returncode == 0, said
    run = read_run(json.loads(answer)["run"])
    assert [Path(node["rows"]).name for node in run.config["federation"]["nodes"]] == ["north.csv", "south.csv"]
    words = ["--simulate", "--model", tiny_opt_folder, *data, *WORDS.split()]
    simulated = call("federate", *words, "--runs-folder", tmp_path / "simulated")
    assert json.loads(simulated.out)["weights_sha256"] == run.summary["weights_sha256"]
    assert all_equal(run, 2)
    assert all(done.reported_N.all() for done in run.rounds[1:])
    await_gone(tmp_path)
    assert not list((tmp_path / "tmp").glob("zorba-federate-*"))


@pytest.mark.slow
@pytest.mark.parametrize("signals", [[signal.SIGINT] * 2, [signal.SIGKILL]], ids=["ctrl-c twice", "kill"])
def test_nothing_lives_after_the_command_was_stopped(tmp_path, tiny_opt_folder, signals):
    process = started(tmp_path, tiny_opt_folder)
    until = time.monotonic() + GENEROUS
    while len(processes(tmp_path)) < 4:  # SuperLink and SuperNodes beside it
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.1)
    for number in signals:
        process.send_signal(number)
        time.sleep(0.2)
    process.communicate(timeout=GENEROUS)
    await_gone(tmp_path)
    if signals != [signal.SIGKILL]:  # which leaves the command's temporary files
        assert process.returncode == 1
        assert not list((tmp_path / "tmp").glob("zorba-federate-*"))
