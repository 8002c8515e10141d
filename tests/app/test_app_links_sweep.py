"""Every control of every page, changed, and the address opened by somebody else: what is shown must be the same.

A page's table names each control by its key with another value than the first. A control that is on the page and in no
table fails the test: whoever adds one decides here what its link does.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.screens.allocation.steps import point_with_work
from app.shared.scenario import Scenario
from app.shared.study import study
from tests.app.shown import TRADE_OFF
from tests.app.written_runs import write_run

TIMEOUT_S = 90
KINDS = ("selectbox", "number_input", "slider", "select_slider", "toggle", "multiselect", "button_group", "text_input",
         "text_area", "date_input", "checkbox", "radio")  # fmt: skip
SIDEBAR = {"fleet": "normal", "clients": 12, "seed": 4, "model": "opt-350m", "batch": 4, "seq": 64, "dtype": "bfloat16",
           "solver": "two-level", "vectors": 40, "tau": "client"}  # fmt: skip
# page, what of it: parameters of the link that begins, controls with their new value
PAGES = {
    "fleet, sidebar": ({}, SIDEBAR | {"mean": 0.6, "spread": 0.3, "leave_out": True}),
    "fleet, lognormal": ({"fleet": "lognormal", "clients": "9"}, {"median": 0.4, "sigma": 0.9}),
    "fleet, two kinds": ({"fleet": "two-kinds"}, {"small": 0.9, "large": 2.5, "share": 60}),
    "fleet, three kinds": ({"fleet": "three-kinds"}, {"medium": 1.3, "medium_share": 20}),
    "fleet, steam": ({"fleet": "steam", "leave_out": "true"}, {"card": 55}),
    "tradeoff": (
        {"vectors": "60"},
        {
            "x": "blocks",
            "y": "mean_inverse_popularity",
            "log": False,
            "show": ["bound", "two-level"],
            "weight": 80,
            "parallel": True,
        },
    ),
    "allocation, by hand": ({"vectors": "60"}, {"order": "budget"}),
    "allocation, many clients": ({"clients": "90", "vectors": "60"}, {"first_client": 7}),
    "allocation, solvers": (
        {"vectors": "60", "view": "solvers"},
        {"against": "two-level", "only_differences": False, "changed_only": True, "align": False},
    ),
    "allocation, steps": ({"vectors": "60", "view": "steps", "point": "WITH WORK"}, {"step": 1}),
    "allocation, proof": ({"vectors": "60"}, {"view": "proof"}),
    "toy": ({}, {"claim": "theorem-3", "class": "g"}),
    "theory": (
        {"vectors": "60"},
        {
            "d": "5e4",
            "mu": "1e-7",
            "smooth": "2e0",
            "noise": "2e0",
            "sigma_g": "1e0",
            "rate": "0.5",
            "q": 7,
            "gap": 2.5,
            "rounds": "1e6",
        },
    ),
    "theory, theorem 2": ({"vectors": "60"}, {"theorem": "2", "kappa": 33}),
    "theory, hidden": ({"vectors": "60"}, {"part": "hidden"}),
    "train": (
        {"vectors": "60"},
        {
            "train_rounds": 70,
            "train_lr": 0.02,
            "train_q": 12,
            "train_mu": 0.002,
            "train_batch": 4,
            "train_length": 32,
            "train_seed": 5,
            "train_every": 5,
            "train_target_toy-reviews": 0.6,
            "train_stops": True,
            "train_force": True,
            "train_estimator": "reference",
        },
    ),
    "train, another method": (
        {"vectors": "60"},
        {
            "train_method": "decomfl",
            "train_lr_decomfl": 0.003,
            "train_q_decomfl": 3,
            "train_model": "folder",
            "train_folder": "artifacts/models/opt-mini",
        },
    ),
    "runs": (
        {},
        {
            "find": "toy",
            "only_dataset": ["toy-reviews"],
            "only_status": ["finished"],
            "measure": ["eval_loss"],
            "cost": "bytes",
            "log_curves": ["loss"],
            "smoothing": 30,
            "curves": "seeds",
            "band": "range",
        },
    ),
    "runs, one": ({}, {"baseline": "LAST", "one_run": "LAST"}),
    "runs, outcomes": (
        {"picture": "outcomes"},
        {
            "outcome": "to_target",
            "along": "LAST",
            "kind": "one",
            "log_outcomes": ["x"],
            "curves": "seeds",
            "band": "range",
        },
    ),
    "paper": ({}, {"verdict": ["contradicted"], "about": "FIRST", "claim_text": "memory"}),
}

KNOWN = {key for _, changes in PAGES.values() for key in changes} | {
    "picture",  # in the link that begins
    "train_dataset",  # only one without data
    "fleet_pasted",  # a text to be read, no choice
    "kind_to_change",  # what a button beside them does next
    "blocks_to_change",
}
NAMES_TO_GIVE = ("view_name_", "add_")  # a view's and a run's, kept when their button is pressed


@pytest.fixture
def app(root, tmp_path, monkeypatch):
    monkeypatch.chdir(root)
    monkeypatch.setenv("ZORBA_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("ZORBA_EXPERIMENTS", str(tmp_path / "none"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for number in range(4):
        write_run(tmp_path / "runs", [0.5, 0.6, 0.8], lr=0.01 * (1 + number // 2), seed=number % 2)
    write_run(tmp_path / "runs", [0.5, 0.6], dataset="sst2", finished=False)
    return lambda: AppTest.from_file(str(root / "app" / "main.py"), default_timeout=TIMEOUT_S).switch_page(TRADE_OFF)


def opened(app, page: str, query):
    fresh = app()
    for key, value in query.items():
        fresh.query_params[key] = value
    return fresh.switch_page(f"screens/{page}/{page}.py").run()


def controls(app) -> dict:
    """Controls by key, those of the page and of the sidebar."""
    # A widget that shows a value from elsewhere has a number behind its key.
    return {re.sub(r"_[0-9]+$", "", control.key): control for kind in KINDS for control in app.get(kind) if control.key}


def shown(app) -> list[str]:
    parts = [*app.title, *app.markdown, *app.caption, *app.warning, *app.info, *app.success, *app.subheader, *app.latex]
    return [part.value for part in parts] + [f"{metric.label} {metric.value} {metric.delta}" for metric in app.metric]


def change(app, key: str, value) -> None:
    control = controls(app)[key]
    if value in ("FIRST", "LAST"):
        options = [getattr(option, "content", option) for option in control.options]
        value = options[0 if value == "FIRST" else -1]
    if key == "about":
        value = [value]
    if hasattr(control, "options") and hasattr(control, "select_index") and value in control.options:
        control.select_index(list(control.options).index(value)).run()
    else:
        control.set_value(value).run()


@pytest.mark.parametrize("name", PAGES)
def test_an_address_restores_every_control_and_what_follows_from_it(app, name):
    page = name.split(",")[0]
    query, changes = PAGES[name]
    if "point" in query:
        plan = study(Scenario(num_epsilons=60))
        query = query | {"point": str(point_with_work(plan, plan.front.knee))}
    mine = opened(app, page, query)
    before = {key: control.value for key, control in controls(mine).items()}
    assert {key for key in before if not key.startswith(NAMES_TO_GIVE)} <= KNOWN
    for key, value in changes.items():
        change(mine, key, value)
        assert not mine.exception, key
    assert [key for key in changes if controls(mine)[key].value == before.get(key)] == []
    theirs = opened(app, page, mine.query_params)
    assert not theirs.exception
    assert [toast.value for toast in theirs.toast] == []
    values = [{key: control.value for key, control in controls(one).items()} for one in (mine, theirs)]
    np.testing.assert_equal(values[1], values[0])
    assert shown(theirs) == shown(mine)
