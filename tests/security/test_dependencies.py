"""The pins have no known weakness, and the bill of materials is of these pins."""

from __future__ import annotations

import json
from datetime import date, timedelta

import pytest

from tests.security import dependencies
from tests.security.dependencies import ADVISORIES, SBOM, age_of_list, bill_of_materials, known_weaknesses, pins


def test_no_pin_has_a_weakness_that_the_kept_list_knows():
    weak, accepted = known_weaknesses(pins())
    assert weak == []
    assert [line.split()[0] for line in accepted] == ["ray"]


def test_an_old_pin_is_named_with_the_version_to_give():
    weak, _ = known_weaknesses({"torch": "2.5.1"})
    assert "torch 2.5.1: CVE-2025-32434" in weak[0]
    assert weak[0].endswith("give 2.6.0 or later")


def test_the_bill_of_materials_names_every_pin():
    pytest.importorskip("cyclonedx")
    made = bill_of_materials(pins())
    assert {(row["name"], row["version"]) for row in made["components"]} == set(pins().items())
    assert made == bill_of_materials(pins())


def test_the_bill_of_materials_that_is_kept_is_of_these_pins():
    """After a change of constraints.txt: python -m tests.security.dependencies."""
    kept = {row["name"]: row["version"] for row in json.loads(SBOM.read_text(encoding="utf-8"))["components"]}
    assert kept == pins()


def test_a_second_pin_of_a_package_hides_none(tmp_path, monkeypatch):
    (tmp_path / "constraints.txt").write_text("torch==2.5.1\nnumpy==2.0.0\nTorch==2.13.0\n")
    monkeypatch.setattr(dependencies, "PINS", tmp_path / "constraints.txt")
    with pytest.raises(ValueError, match=r"Torch==2\.13\.0 is a second pin of torch, after 2\.5\.1"):
        pins()


def test_a_list_of_advisories_that_is_a_year_old_is_said():
    made = date.fromisoformat(json.loads(ADVISORIES.read_text(encoding="utf-8"))["as_of"])
    assert age_of_list(made + timedelta(days=3)) == f"advisories as of {made}, 3 days old"
    assert age_of_list(made + timedelta(days=365)).startswith(f"notice: advisories as of {made}, 365 days old; run pip")
