"""``zorba federation up``: a SuperLink and two SuperNodes on loopback, each with its own rows, killed and resumed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytest.importorskip("flwr")


from tests.runs.test_own_data import reviews
from zorba_core.runs import list_runs

ROUNDS = 2


def processes_of(folder: Path) -> list[psutil.Process]:
    """Everything that a federation in this folder has started and that still lives."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("ZORBA_FEDERATION") == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


class Up:
    """The command with clients' own files, in a process of its own."""

    def __init__(self, place: Path) -> None:
        self.folder, self.runs = place / "federation", place / "runs"

    def start(self, *options: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "zorba_core", "federation", "up", "--runs-folder", str(self.runs), "--json"]
        return subprocess.Popen([*command, "--folder", str(self.folder), *options], stdout=subprocess.PIPE, text=True)

    def rounds_done(self) -> int:
        runs = list_runs(self.runs).runs
        return runs[0].rounds_done if runs else 0

    def after_round(self, number: int, process: subprocess.Popen) -> None:
        while self.rounds_done() < number:
            assert process.poll() is None, (self.folder / "server.log").read_text()
            time.sleep(0.2)

    def gone(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while processes_of(self.folder) and time.monotonic() < until:
            time.sleep(0.2)
        return processes_of(self.folder) == []


@pytest.mark.slow
def test_supernodes_with_their_own_rows_are_resumed_after_the_server_died(tmp_path, tiny_opt_folder):
    (tmp_path / "clients").mkdir()
    frame = reviews()[["remark", "verdict"]]
    frame.iloc[:40].to_csv(tmp_path / "clients" / "first.csv", index=False)
    frame.iloc[40:].to_csv(tmp_path / "clients" / "second.csv", index=False)
    frame.head(20).to_csv(tmp_path / "test.csv", index=False)
    up = Up(tmp_path)
    process = up.start(
        "--data", str(tmp_path / "clients" / "*.csv"), "--test", str(tmp_path / "test.csv"), "--label", "verdict",
        "--text", "remark", "--model", str(tiny_opt_folder), "--blocks", "3,2", "--rounds", str(ROUNDS),
        "--mu", "1e-3", "--lr", "1e-3", "--directions", "3", "--batch-size", "4", "--seq-len", "32",
        "--deadline", "120", "--force",
    )  # fmt: skip
    up.after_round(1, process)
    process.kill()  # the command, and with it server and clients
    process.wait()
    assert up.gone(60)
    (run,) = up.runs.iterdir()
    done = up.rounds_done()
    assert done < ROUNDS

    resumed = up.start("--resume", str(run))
    answer = json.loads(resumed.communicate(timeout=500)[0])
    assert resumed.returncode == 0
    assert answer["rounds_done"] == ROUNDS
    assert [(replica["seat"], replica["equal"]) for replica in answer["replicas"]] == [(0, True), (1, True)]
    assert processes_of(up.folder) == []


@pytest.mark.slow
def test_nothing_is_left_after_ctrl_c(tmp_path):
    up = Up(tmp_path)
    process = up.start("--clients", "2", "--dataset", "toy-reviews")
    while len(processes_of(up.folder)) < 3:
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 1
    assert processes_of(up.folder) == []
