"""``zorba fleet check``: from a list with any column names to the fleet that the other commands read."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from zorba_core import read_fleet_csv
from zorba_core.cli import build_app
from zorba_core.errors import InvalidInputError, MissingDataError

LIST = "Standort;GPU-Modell;Speicher (GB);Anzahl;frei %\nKöln;RTX 4090;24,0;3;80\nUlm;Jetson;7,5;2;50\n"


@pytest.fixture
def cards(tmp_path):
    (tmp_path / "cards.csv").write_text(LIST, encoding="latin-1")
    return str(tmp_path / "cards.csv")


def called(*arguments: str, **other):
    return CliRunner().invoke(build_app(), ["fleet", "check", *arguments], catch_exceptions=False, **other)


def test_a_list_of_cards_becomes_a_fleet_that_is_read_back(cards, tmp_path):
    shown = json.loads(called(cards, "--to", str(tmp_path / "fleet.csv"), "--json").stdout)
    assert shown["columns"] | {"name": None} == {
        "memory": "Speicher (GB)", "unit": "GiB", "free": None, "count": "Anzahl", "each": None, "kind": "GPU-Modell",
        "name": None, "speed": None, "share": "frei %",
    }  # fmt: skip
    assert shown["not_used"] == ["Standort"]
    assert [(kind["count"], kind["vram_gib"]) for kind in shown["kinds"]] == [(3, 19.2), (2, 3.75)]
    fleet = read_fleet_csv(tmp_path / "fleet.csv")
    assert len(fleet.names) == shown["clients"] == 5
    assert fleet.capacity_N_gib.tolist() == pytest.approx([19.2] * 3 + [3.75] * 2)


def test_a_share_in_percent_is_of_the_decimals_that_are_written(tmp_path):
    """Floats have 7.992000000000001, 7.1995000000000005 and 27.055999999999997."""
    (tmp_path / "cards.csv").write_text("card,GiB,frei %\nA,89,30.4\nB,24,33.3\nC,18.7,38.5\n")
    shown = json.loads(called(str(tmp_path / "cards.csv"), "--to", str(tmp_path / "fleet.csv"), "--json").stdout)
    assert [kind["vram_gib"] for kind in shown["kinds"]] == [27.056, 7.992, 7.1995]
    written = (tmp_path / "fleet.csv").read_text().splitlines()[1:]
    assert [line.split(",")[1] for line in written] == ["27.056", "7.992", "7.1995"]


def test_lines_say_what_was_read_and_what_was_not_and_stdin_will_do(cards):
    lines = called(cards).stdout
    assert "count   Anzahl" in lines
    assert "look at: GB is read as GiB" in lines
    assert "not used: Standort" in lines
    assert "2 cards of 1 kind\n" in called("-", input="Tesla T4, 15360 MiB\nTesla T4, 15360 MiB\n").stdout


def test_a_wrong_guess_is_corrected_by_options(tmp_path):
    (tmp_path / "cards.csv").write_text("thing,size,pezzi,spare\nA,24000,2,8000\nB,8000,3,4000\n")
    options = ("--column", "count=pezzi", "--column", "memory=spare", "--unit", "MB (10^6 bytes)", "--share", "0.5")
    shown = json.loads(called(str(tmp_path / "cards.csv"), *options, "--json").stdout)
    assert shown["clients"] == 5
    assert shown["not_used"] == ["size"]
    assert shown["doubts"] == []
    assert shown["kinds"][0]["vram_gib"] == pytest.approx(8000e6 / 2**30 / 2, abs=1e-3)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--column", "memory"], "is not ROLE=NAME"),
        (["--column", "size=Anzahl"], "is not ROLE=NAME with a role of memory"),
        (["--column", "memory=nothing"], "the list has no such column; it has Standort"),
        (["--unit", "pounds"], "--unit is 'pounds'; it must be one of GiB"),
        (["--share", "0"], "above 0 and at most 1"),
        (["--column", "memory=Standort"], "row 1: Standort is 'Köln'; it must be a size"),
    ],
)
def test_wrong_options_are_refused_in_one_line_and_nothing_is_written(cards, tmp_path, options, says):
    with pytest.raises(InvalidInputError) as raised:
        called(cards, *options, "--to", str(tmp_path / "fleet.csv"))
    assert says in str(raised.value)
    assert not (tmp_path / "fleet.csv").exists()


def test_a_list_that_is_missing_or_empty_is_named(tmp_path):
    with pytest.raises(MissingDataError, match=r"'nowhere\.csv' does not exist"):
        called("nowhere.csv")
    (tmp_path / "empty.csv").write_text("\n")
    with pytest.raises(InvalidInputError, match=r"empty\.csv: the list is empty"):
        called(str(tmp_path / "empty.csv"))
