"""The pins have no known weakness, and the bill of materials is of these pins."""

from __future__ import annotations

import json

import pytest

from tests.security.dependencies import SBOM, bill_of_materials, known_weaknesses, pins


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
    kept = {row["name"] for row in json.loads(SBOM.read_text())["components"]}
    assert len(kept & set(pins())) > 0.9 * len(pins())  # the file is made again at releases, not with every pin
