"""``zorba task`` and ``zorba train --data``: from a file to a run, with nothing said but where it lies."""

from __future__ import annotations

import json
import re

import pytest

from tests.command import Left, call
from tests.runs.test_own_data import reviews
from zorba_core.runs import read_run


@pytest.fixture
def csv(tmp_path):
    reviews().to_csv(tmp_path / "reviews.csv", index=False)
    return str(tmp_path / "reviews.csv")


def called(*arguments: object) -> Left:
    left = call(*arguments)
    assert left.status == 0, left.err
    return left


def test_a_file_is_described_as_one_object_or_in_lines(csv, tiny_opt_folder):
    facts = json.loads(called("task", csv, "--model", tiny_opt_folder, "--client", "branch", "--json").out)
    assert [label["name"] for label in facts["labels"]] == ["bad", "good"]
    assert sorted(facts["clients"]) == ["branch-0", "branch-1", "branch-2"]
    assert (facts["model"]["rounds"], facts["model"]["rows"]) == (150, facts["rows"]["validation"])
    assert 0 < facts["model"]["seconds_a_round"] < facts["model"]["minutes"] * 60
    assert facts["baselines"]["naive_bayes"] > facts["baselines"]["majority"]
    lines = called("task", csv, "--model", tiny_opt_folder, "--seq-len", 8).out
    assert "reviews.csv, line 2" in lines
    assert "always the commonest label" in lines
    assert f"{tiny_opt_folder} cannot be trained on it: task reviews: seq_len 8" in lines
    assert "lose the end of their text: --seq-len" in lines
    assert called("task", "toy-reviews", "--model", tiny_opt_folder).out.startswith("task toy-reviews")


def test_a_file_alone_is_trained_on_by_as_many_clients_as_it_names(csv, tiny_opt_folder, tmp_path):
    small = "--rounds 1 --batch-size 2 --seq-len 32 --eval-rows 8 --directions 2 --force"
    done = called(
        "train", "--data", csv, "--client", "branch", "--model", tiny_opt_folder, "--runs-folder", tmp_path / "runs",
        *small.split(), "--json",
    )  # fmt: skip
    run = read_run(json.loads(done.out)["run"])
    assert (run.config["num_clients"], run.config["division"]) == (3, "natural")
    assert "label   verdict: " in done.err
    assert (run.config["lr"], run.config["calibration"]) == ("auto", "batch")
    assert len(run.environment["data"]["prompts"]) > 5
    assert "learning rate" in done.err
    assert run.environment["data"]["baselines"]["majority"] == 0.375
    assert "[inferred; --prompt]" in done.err


def test_options_that_contradict_each_other_or_the_rows_are_named(csv, tiny_opt_folder, tmp_path):
    for arguments, says in [
        (("--label", "verdict"), "--label is for rows of your own; give them with --data FILE"),
        (("--data", "{csv}", "--dataset", "sst2"), "give --dataset or --data, not both"),
        (("--data", "{csv}", "--division", "fair"), "division is 'fair'; choose one of dirichlet, natural"),
        (("--data", "{csv}", "--client", "branch", "--clients", "5"), "from 3 clients .* allocation is for 5"),
        (
            ("--data", "{csv}", "--division", "natural", "--clients", "3"),
            "name no clients; give the column",
        ),
    ]:
        filled = [argument.replace("{csv}", csv) for argument in arguments]
        refused = call("train", "--model", tiny_opt_folder, "--runs-folder", tmp_path / "runs", *filled)
        assert (refused.status, refused.out) == (2, "")
        assert refused.lines[-1].startswith("zorba: ")  # after what was inferred
        assert re.search(says, refused.lines[-1])
        assert not (tmp_path / "runs").exists()
