"""The Runs page on an experiment's tables."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from app.screens.registry import PAGES
from zorba_core.cli import build_app
from zorba_core.errors import ZorbaError
from zorba_core.study.comparison import experiment_records, groups
from zorba_core.study.experiments import EXPERIMENTS
from zorba_core.study.experiments.store import (
    CURVE_SCHEMA,
    ENGINE_VERSION,
    RUN_SCHEMA,
    empty_runs,
    frame_of,
    write_tables,
)


@pytest.fixture
def app(app, tmp_path, monkeypatch):
    monkeypatch.setenv("ZORBA_EXPERIMENTS", str(tmp_path / "experiments"))
    return app


def see(app):
    return app.switch_page("screens/runs/runs.py").run()


def write_experiment(folder, name, profile):
    """Tables as `zorba experiment` leaves them, of the runs that it plans first; returns their specs."""
    specs = [spec for spec in EXPERIMENTS[name].specs(profile, empty_runs()) if spec.role == "measure"]
    rows = []
    for spec in specs:
        request = spec.request()
        rows.append(
            {
                "sha256": spec.sha256, "engine_version": ENGINE_VERSION, "arm": spec.arm, "role": spec.role,
                "status": "finished", "seed": spec.seed, "dataset": spec.dataset, "model": spec.model,
                "method": spec.method, "alpha": spec.alpha, "num_clients": request["recipe"]["num_clients"],
                "lr": request["settings"]["lr"], "target": 0.7, "git_dirty": False, "psi_gib": 1.0, "lambda": 0.5,
                "num_blocks": 12, "sent_bytes": 9000,
                "config": json.dumps({"request": request}, default=str),
            }
        )  # fmt: skip
    curves = [
        {"sha256": spec.sha256, "round": t, "loss": 0.6, "accuracy": 0.5 + 0.1 * t, "forward_passes": t, "seconds": t}
        for spec in specs
        for t in range(3)
    ]
    write_tables(folder / name / profile, frame_of(rows, RUN_SCHEMA), frame_of(curves, CURVE_SCHEMA))
    return specs


def test_an_experiments_tables_are_runs_too(app, tmp_path):
    specs = write_experiment(tmp_path / "experiments", "cases", "ci")
    listing = experiment_records("cases", "ci", tmp_path / "experiments")
    assert {record.arm for record in listing.records} == {spec.arm for spec in specs}
    assert set(groups(listing.records)) == {spec.arm for spec in specs}
    for record in listing.records:
        sent = record.metrics["bytes"].tolist()
        assert 0 < sent[0] < sent[1] < sent[2] == 9000  # the setup, then as much in every round
        assert sent[2] - sent[1] == sent[1] - sent[0]
    app.query_params |= {"source": "cases.ci", "cost": "bytes"}
    see(app)
    assert not app.exception
    assert len(app.dataframe[0].value) == len(specs)
    assert app.get("plotly_chart")


def test_the_command_lists_an_experiments_runs_and_says_what_is_not_there(tmp_path):
    write_experiment(tmp_path, "cases", "ci")
    asked = ["runs", str(tmp_path), "--experiment", "cases", "--profile", "ci"]
    table = CliRunner().invoke(build_app(), asked)
    assert "SC1" in table.stdout
    row = json.loads(CliRunner().invoke(build_app(), [*asked, "--json"]).stdout)["runs"][0]
    assert (row["best_accuracy"], row["sent_bytes"]) == (pytest.approx(0.7), 9000)
    for wrong in ([*asked, "--only", "nobody"], [*asked[:-1], "standard"], [*asked[:3], "nope"]):
        done = CliRunner().invoke(build_app(), wrong)
        assert done.exit_code != 0
        assert isinstance(done.exception, ZorbaError | SystemExit)


def test_choices_made_here_leave_other_pages_alone(app, root, tmp_path):
    write_experiment(tmp_path / "experiments", "cases", "ci")
    chosen = {"log_curves": "cost,loss", "curves": "seeds", "measure": "eval_loss,eval_accuracy"}
    app.query_params |= {"source": "cases.ci", **chosen}
    see(app)
    for page in PAGES.values():
        app.switch_page(page.path).run()
        assert not app.exception, page.name
        assert not [warning.value for warning in app.warning if "went wrong" in warning.value], page.name
