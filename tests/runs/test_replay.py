"""Models rebuilt from base and log alone."""

from __future__ import annotations

import json

import pytest
from transformers import AutoModelForCausalLM

from tests.command import call, check_refused
from tests.runs.resumable import ALLOCATION, SETTINGS
from zorba_core.engine.blocks import Blocks
from zorba_core.runs.replay import WEIGHTS, open_model, replay
from zorba_core.runs.train import fine_tune

pytestmark = pytest.mark.usefixtures("rows_divided_once")


@pytest.mark.parametrize("method", ["zorba", "decomfl", "fedzo"])
def test_any_round_is_rebuilt_from_base_and_log_alone(tiny_opt_folder, tmp_path, method, monkeypatch):
    settings = SETTINGS.replace(method=method, directions=None).replace(rounds=4, eval_every=1)
    who = {"allocation": ALLOCATION} if method == "zorba" else {"num_clients": 3}
    run = fine_tune(**who, model=tiny_opt_folder, settings=settings, runs_folder=tmp_path)
    monkeypatch.setattr("zorba_core.runs.load.load", None)  # no data is read
    for t in range(5):
        rebuilt = replay(run, t)
        assert (rebuilt.network.weights_sha256(), rebuilt.checked_at) == (run.rounds[t].weights_sha256, t)
    assert len({done.weights_sha256 for done in run.rounds}) == 5


def test_the_last_rounds_weights_are_stored_and_checked_by_their_fingerprint(whole, tmp_path):
    expected = whole.summary["weights_sha256"]
    assert open_model(whole).network.weights_sha256() == expected
    content = (whole.path / WEIGHTS).read_bytes()
    for bad in (content, content[:-1] + bytes([content[-1] ^ 1]), content[:100]):
        (whole.path / WEIGHTS).write_bytes(bad)
        assert replay(whole).network.weights_sha256() == expected


def test_a_wrong_request_gets_one_line_and_status_2(whole):
    for arguments, says in [
        (["resume", "nowhere"], "'nowhere' does not exist"),
        (["replay", "nowhere"], "'nowhere' does not exist"),
        (["resume", "{run}"], "this run is finished"),
        (["replay", "{run}", "--round", "10"], "round 10 is not in the log"),
        (["replay", "{run}", "--round", "-1"], "--round is -1"),
        (["replay", "{run}", "--save", "{run}"], "exists already"),
        (["replay", "{run}", "--model", "no-such"], "unknown model 'no-such'"),
    ]:
        left = call(*(word.format(run=whole.path) for word in arguments))
        check_refused(left)
        assert (left.status, says in left.err) == (2, True)


def test_replay_saves_a_model_that_transformers_loads(whole, tmp_path):
    save = str(tmp_path / "model")
    result = json.loads(call("replay", str(whole.path), "--round", "6", "--save", save, "--json").out)
    assert (result["round"], result["checked_at_round"], result["saved"]) == (6, 6, save)
    saved = Blocks(AutoModelForCausalLM.from_pretrained(save))
    assert saved.weights_sha256() == result["weights_sha256"] == whole.rounds[6].weights_sha256
