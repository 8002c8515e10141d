"""Saved views of the Runs page: names for addresses, kept with the runs."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest

from app.screens.runs.picks import from_link
from app.screens.runs.views import (
    GIVEN,
    MOST_VIEWS,
    VIEWS,
    Views,
    read_views,
    same_view,
    suggested_name,
    write_views,
)
from app.shared.folders import ROOT
from zorba_core.errors import InvalidInputError
from zorba_core.study.comparison import experiment_records, experiments_there

ADDRESS = {"source": ["tables.standard"], "runs": ["a", "b"], "find": ["lr 0.1 & <b>"]}


def test_a_view_comes_back_with_its_address(tmp_path):
    assert read_views(tmp_path) == Views()
    write_views(tmp_path, Views().with_view(" Four\nmethods ", ADDRESS))
    (view,) = read_views(tmp_path).saved
    assert view.name == "Four methods"
    assert view.parameters == ADDRESS
    assert same_view(view, {**ADDRESS, "clients": ["50"]})
    assert not same_view(view, {**ADDRESS, "runs": ["a"]})


def test_views_are_replaced_renamed_and_deleted(tmp_path):
    views = Views().with_view("one", ADDRESS).with_view("two", {}).with_view("one", {"runs": ["c"]})
    assert [(view.name, view.parameters.get("runs")) for view in views.saved] == [("two", None), ("one", ["c"])]
    with pytest.raises(InvalidInputError, match="another view is called"):
        views.renamed(views.saved[0], "one")
    views = views.renamed(views.saved[0], "zwei").less(views.saved[1])
    assert [view.name for view in views.saved] == ["zwei"]
    for name in ("", " \x07 "):
        with pytest.raises(InvalidInputError, match="needs a name"):
            views.with_view(name, {})
    with pytest.raises(InvalidInputError, match="too many picked runs"):
        views.with_view("long", {"runs": ["x" * 5000]})
    full = views
    for number in range(MOST_VIEWS - 1):
        full = full.with_view(f"v{number}", {})
    with pytest.raises(InvalidInputError, match="delete one first"):
        full.with_view("one more", {})


def test_a_given_view_can_be_renamed_and_deleted_as_well():
    there = experiments_there(ROOT / "artifacts" / "experiments")
    first, second = Views().all(there)[:2]
    views = Views().renamed(first, "mine").less(second)
    names = [view.name for view in views.all(there)]
    assert "mine" in names
    assert not {first.name, second.name} & set(names)
    assert Views().all([]) == []


@pytest.mark.parametrize("view", GIVEN, ids=lambda view: view.name)
def test_given_views_pick_runs_that_are_there(view):
    name, profile = view.parameters["source"][0].split(".")
    records = experiment_records(name, profile, ROOT / "artifacts" / "experiments").records
    names = [record.name for record in records]
    picks = from_link(view.parameters["runs"], names)
    assert set(picks.names) <= set(names)
    assert picks.every in (0, len(names))
    assert parse_qs(view.address, keep_blank_values=True)["source"] == [f"{name}.{profile}"]


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b'{"views": [1]}', b'{"views": [{"name": "", "address": ""}]}', b"\xff", b"[" * 9000]
)
def test_a_damaged_file_is_named(tmp_path, content):
    (tmp_path / VIEWS).write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"views\.json: "):
        read_views(tmp_path)


def test_names_say_what_is_seen():
    common = {"curves": 20, "cost": "bytes sent", "picture": "curves", "outcome": ("", "")}
    methods = ["decomfl", "fedit", "fedzo", "zorba"]
    assert suggested_name(methods=methods, datasets=["sst2"], **common) == "Four methods by bytes sent on SST-2"
    assert suggested_name(methods=["zorba"], datasets=["a", "b"], **common) == "20 curves of zorba by bytes sent"
    of_outcomes = {**common, "picture": "outcomes", "outcome": ("Best accuracy", "Λ")}
    assert suggested_name(methods=["zorba"], datasets=["snli"], **of_outcomes) == "Best accuracy against Λ on SNLI"
