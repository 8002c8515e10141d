"""Scenarios from outside: links, JSON, dropped files. What comes in is checked, and what is wrong is named."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from app.shared.command import as_command
from app.shared.own_fleet import edited_rows, with_uploaded_fleet
from app.shared.scenario import FLEET_KINDS, Scenario
from app.shared.scenario_fields import KEYS, LIMITS, MAX_ROWS, checked
from app.shared.scenario_link import scenario_from_link, scenario_to_link
from app.shared.study import study
from zorba_core.errors import InvalidInputError

TABLE = (("workstation", 1.9), ("laptop, old", 1.25), ("édge", 0.8), (None, 1.0))
OTHER = {
    "seed": 7,
    "num_clients": 9,
    "mean_fraction": 0.35,
    "median_fraction": 0.15,
    "sigma": 0.45,
    "small_gib": 0.7,
    "medium_fraction": 0.25,
    "card_share": 0.55,
    "solver": "two-level",
    "num_epsilons": 40,
    "tau_mode": "client",
    "leave_out_small": True,
    "dtype": "bfloat16",
    "table": TABLE,
}


def same_study(one: Scenario, other: Scenario) -> bool:
    first, second = study(one), study(other)
    return first.fleet.names == second.fleet.names and np.array_equal(
        first.front.bias_lambda_E, second.front.bias_lambda_E, equal_nan=True
    )


@pytest.mark.parametrize("kind", FLEET_KINDS)
def test_a_link_and_a_json_restore_every_kind_of_scenario(kind):
    scenario = Scenario(fleet_kind=kind, **OTHER)
    linked, ignored = scenario_from_link(scenario_to_link(scenario))
    assert ignored == []
    assert same_study(linked, scenario)


# Links that people keep: a short name never changes.
SHORT_NAMES = {
    "fleet_kind": "fleet", "num_clients": "clients", "seed": "seed", "mean_fraction": "mean", "spread": "spread",
    "median_fraction": "median", "sigma": "sigma", "small_gib": "small", "medium_gib": "medium", "large_gib":
    "large", "medium_fraction": "medium_share", "large_fraction": "share", "card_share": "card", "leave_out_small":
    "leave_out", "model": "model", "batch_size": "batch", "seq_len": "seq", "dtype": "dtype", "solver": "solver",
    "num_epsilons": "vectors", "tau_mode": "tau",
}  # fmt: skip


def test_short_names_in_links_stay():
    assert KEYS == SHORT_NAMES


def test_bounds_of_a_control_are_those_that_links_are_checked_by():
    for name, limits in LIMITS.items():
        assert checked(name, limits.low) == limits.low
        assert checked(name, limits.high) == limits.high
        for outside in (limits.low - 1, limits.high + 1):
            with pytest.raises(InvalidInputError, match="it must be at"):
                checked(name, outside)


def test_a_whole_number_written_as_a_decimal_is_read_as_one():
    assert checked("num_clients", 50.0) == 50
    assert isinstance(checked("num_clients", 50.0), int)
    assert isinstance(checked("small_gib", 2), float)


def test_a_long_table_stays_out_of_the_link():
    rng = np.random.default_rng(0)
    rows = tuple((f"client-{n}", float(gib)) for n, gib in enumerate(rng.uniform(1, 9, 2_000)))
    assert scenario_to_link(Scenario(fleet_kind="table", table=rows)) == {"fleet": "table"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seed", "-1"),
        ("seed", "9" * 5000),
        ("clients", "1e9"),
        ("clients", "<script>"),
        ("seq", "0"),
        ("model", "../../etc/passwd"),
        ("solver", "exactly"),
        ("leave_out", "maybe"),
        ("fleet", "csv"),
        ("vectors", ""),
        ("batch", "nan"),
    ],
)
def test_garbage_in_a_link_counts_as_left_out_and_is_told(key, value):
    assert scenario_from_link({key: value, "dtype": "float16"}) == (Scenario(dtype="float16"), [key])


@pytest.mark.parametrize("rows", ["%%%", "AAAA", "eJwDAAAAAAE", "x" * 7000])
def test_garbage_rows_leave_an_empty_table(rows):
    assert scenario_from_link({"fleet": "table", "rows": rows}) == (Scenario(fleet_kind="table"), ["rows"])


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"vram_gib\n" + b"1\n" * (MAX_ROWS + 1), "rows; the dashboard takes up to"), (b"1" * 5_000_001, "at most 5 MB")],
)
def test_a_file_that_is_too_large_is_refused_in_one_line(content, says):
    with pytest.raises(InvalidInputError, match=says) as caught:
        with_uploaded_fleet(content, Scenario())
    assert "\n" not in str(caught.value)


def test_a_dropped_csv_becomes_the_clients_and_keeps_the_rest():
    scenario = Scenario(seed=3, model="opt-350m", leave_out_small=True)
    taken = with_uploaded_fleet("vram_gib,client\n2,a\n1.5,ü\n".encode(), scenario)
    assert taken == scenario.replace(fleet_kind="table", table=(("a", 2.0), ("ü", 1.5)))


def test_edits_of_the_table_change_add_and_delete_rows():
    rows = (("a", 1.0), ("b", 2.0), ("c", 3.0))
    edits = {
        "edited_rows": {"0": {"vram_gib": 4.0}, 2: {"client": "z"}},
        "deleted_rows": [1],
        "added_rows": [{"client": "d", "vram_gib": 8.0}, {}, {"vram_gib": 1.0, "_index": 5}],
    }
    assert edited_rows(rows, edits) == (("a", 4.0), ("z", 3.0), ("d", 8.0), (None, 1.0))


def test_the_command_of_a_page_prints_the_pages_front(tmp_path, root):
    scenario = Scenario(fleet_kind="table", table=(("a", 1.2), ("b", 1.9), ("c", 1.9)), num_epsilons=25)
    result = study(scenario)
    result.fleet.to_frame().to_csv(tmp_path / "fleet.csv", index=False)
    command = as_command(scenario, 3).replace("zorba pareto", f"{sys.executable} -m zorba_core pareto")
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=True, cwd=tmp_path, env={"PYTHONPATH": str(root)}
    )
    points = json.loads(done.stdout)["points"]
    shown = np.array([np.nan if point["lambda"] is None else point["lambda"] for point in points])
    np.testing.assert_array_equal(shown, result.front.bias_lambda_E)
