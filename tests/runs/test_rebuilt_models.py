"""Models rebuilt from base and log alone, and the commands."""

from __future__ import annotations

import json
import sys

import pytest
from transformers import AutoModelForCausalLM

from tests.runs.resumable import ALLOCATION, SETTINGS
from zorba_core.cli import main
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.callbacks import Callback
from zorba_core.runs import TRAJECTORY
from zorba_core.runs import resume as resuming
from zorba_core.runs.resume import replay
from zorba_core.runs.session import fine_tune
from zorba_core.runs.trajectory import read_trajectory

pytestmark = pytest.mark.usefixtures("rows_divided_once")


def test_any_round_is_rebuilt_from_base_and_log_alone(whole, tmp_path, monkeypatch):
    class Weights(Callback):
        of_round: dict[int, str] = {}  # noqa: RUF012 - filled by the run below

        def on_evaluation(self, entry):
            self.of_round[entry.round] = entry.weights_sha256

    weights = Weights()
    settings = SETTINGS.replace(eval_every=1)
    fine_tune(
        ALLOCATION, model=whole.config["model"], settings=settings, runs_folder=tmp_path / "every", callbacks=[weights]
    )
    monkeypatch.setattr(resuming, "divide_rows", None)  # no data is touched
    for t in (0, 1, 4, 9):
        rebuilt = replay(whole.path, round_index=t, save=tmp_path / str(t))
        assert rebuilt.network.weights_sha256() == weights.of_round[t]
        assert rebuilt.checked_at == t // 3 * 3
        saved = Blocks(AutoModelForCausalLM.from_pretrained(tmp_path / str(t)), [0, 1])
        assert saved.weights_sha256() == weights.of_round[t]
    assert replay(whole.path).round == 9


@pytest.mark.parametrize("method", ["decomfl", "fedzo"])
def test_scalars_rebuild_any_round_of_a_method_that_has_them(tiny_opt_folder, tmp_path, method):
    settings = SETTINGS.replace(method=method, directions=None).replace(rounds=4, eval_every=1)
    run = fine_tune(num_clients=3, model=tiny_opt_folder, settings=settings, runs_folder=tmp_path)
    entries = read_trajectory(run.path / TRAJECTORY).evaluations
    for t in (1, 4):
        assert replay(run.path, round_index=t).network.weights_sha256() == entries[t].weights_sha256
    assert len({entry.weights_sha256 for entry in entries}) == 5


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["resume", "nowhere"], "'nowhere' does not exist"),
        (["replay", "nowhere"], "'nowhere' does not exist"),
        (["resume", "{run}"], "this run is finished"),
        (["replay", "{run}", "--round", "10"], "round 10 is not in the log"),
        (["replay", "{run}", "--round", "-1"], "--round is -1"),
        (["replay", "{run}", "--save", "{run}"], "exists already"),
        (["replay", "{run}", "--model", "no-such"], "unknown model 'no-such'"),
    ],
)
def test_a_wrong_request_gets_one_line_and_status_2(whole, monkeypatch, capsys, arguments, says):
    monkeypatch.setattr(sys, "argv", ["zorba", *(word.format(run=whole.path) for word in arguments)])
    with pytest.raises(SystemExit) as left:
        main()
    captured = capsys.readouterr()
    assert (left.value.code, captured.out) == (2, "")
    assert says in captured.err
    assert len(captured.err.strip().splitlines()) == 1


def test_replay_prints_what_it_rebuilt(whole, monkeypatch, capsys, tmp_path):
    save = str(tmp_path / "model")
    monkeypatch.setattr(sys, "argv", ["zorba", "replay", str(whole.path), "--round", "6", "--save", save, "--json"])
    with pytest.raises(SystemExit) as left:
        main()
    result = json.loads(capsys.readouterr().out)
    assert not left.value.code
    assert (result["round"], result["checked_at_round"], result["saved"]) == (6, 6, save)
    saved = Blocks(AutoModelForCausalLM.from_pretrained(save), [0, 1])
    assert saved.weights_sha256() == result["weights_sha256"]
