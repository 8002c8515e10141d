"""Our claim about own tasks: decided over tasks alone, waiting without its file, and refused where that is damaged."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from zorba_core.checksums import read_sealed, write_sealed
from zorba_core.errors import InvalidInputError
from zorba_core.study.ledger import own_task_rows
from zorba_core.study.ledger.own_task_rows import DECIDES, FILE

ROOT = Path(__file__).resolve().parents[3]


def arrival(losses: str, target: float) -> float:
    """The round, on straight lines, at which a stored curve reaches the target; 12 where it does not."""
    curve = [float(loss) for loss in losses.split()]
    for t, loss in enumerate(curve):
        if loss <= target:
            return 0.0 if t == 0 else t - (target - loss) / (curve[t - 1] - loss)
    return 12.0


def written(tmp_path, low, value, high):
    interval = {"value": value, "low": low, "high": high}
    speed_of = {"learns": interval, "levels": None}
    cells = [
        {"model": "m", "task": task, "targets": {DECIDES: {"speed": speed, "pooled": speed is not None}}}
        for task, speed in speed_of.items()
    ]
    pooled = {
        "over_tasks": {**interval, "tasks": 9, "next_task": [low / 2, None]},
        "over_seeds": interval,
        "without_those_known_before": interval,
        "of_other_sources_than_ag_news": {"value": value, "low": 0.0, "high": None},
        "without_one_task": [low, high],
        "left_out": ["m on levels"],
    }
    path = tmp_path / FILE
    path.parent.mkdir(parents=True)
    write_sealed(path, {"cells": cells, "pooled": {DECIDES: pooled, "to 90 %": {"cells": 0, "tasks": 0}}})
    return path


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [((1.1, 1.3, 1.5), "reproduced in shape"), ((0.9, 1.1, 1.3), "undecided"), ((0.7, 0.8, 0.9), "contradicted")],
)
def test_the_word_follows_from_the_interval_over_tasks(tmp_path, interval, verdict):
    written(tmp_path, *interval)
    (claim,) = own_task_rows.rows(tmp_path)
    assert (claim.verdict, bool(claim.counter_example)) == (verdict, verdict == "contradicted")
    assert claim.ours == f"{interval[1]:.2f} ({interval[0]:.2f} to {interval[2]:.2f}, 9 tasks)"
    assert "the paper's arm learns too little on m on levels" in claim.note
    assert "without an interval" in claim.note


def test_without_runs_it_waits(tmp_path):
    (claim,) = own_task_rows.rows(tmp_path)
    assert (claim.verdict, claim.ours) == ("cannot be tested here", None)


def test_a_damaged_or_foreign_file_is_refused_by_name(tmp_path):
    path = written(tmp_path, 1.1, 1.3, 1.5)
    path.write_text(path.read_text().replace("1.3", "1.4", 1))
    with pytest.raises(InvalidInputError, match="checksum does not fit"):
        own_task_rows.rows(tmp_path)
    path.write_text(json.dumps({"pooled": []}))
    with pytest.raises(InvalidInputError, match="not what"):
        own_task_rows.rows(tmp_path)


@pytest.mark.parametrize("target", ["to 70 %", "to 90 %", "to 70 % beyond equal odds"])
def test_what_is_pooled_follows_from_the_rounds_of_each_seed(target):
    content = read_sealed(ROOT / FILE)
    by_task: dict[str, list[float]] = {}
    for cell in content["cells"]:
        of = cell["targets"][target]
        if of["lost_by_paper"] >= 0.02:
            paper, gain = (
                np.mean([arrival(run, of["loss"]) for run in cell["losses"][arm]]) for arm in ("paper", "gain")
            )
            by_task.setdefault(cell["task"], []).append(math.log(paper / gain))
    logs = [np.mean(both) for both in by_task.values()]
    half = stats.t.ppf(0.975, len(logs) - 1) * np.std(logs, ddof=1) / math.sqrt(len(logs))
    over = content["pooled"][target]["over_tasks"]
    expected = [math.exp(np.mean(logs) + sign * half) for sign in (0, -1, 1)]
    assert [over["value"], over["low"], over["high"]] == pytest.approx(expected, rel=1e-3)
    assert over["tasks"] == len(logs)
