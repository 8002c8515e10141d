"""Parts by name: our own, a script's, and those of installed packages; a broken one changes nothing for the others."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass

import pytest

from zorba_core.errors import InvalidInputError
from zorba_core.registry import Registry


@dataclass(frozen=True)
class Hat:
    name: str
    help: str = "a hat"


def hats(monkeypatch, entries=()) -> Registry[Hat]:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: list(entries))
    registry = Registry(
        "hat", "zorba.hats", Hat, home=lambda: [registry.register(Hat(name)) for name in ("bowler", "beret")] and None
    )
    return registry


class Entry:
    def __init__(self, name: str, part: object) -> None:
        self.name, self.group, self.value, self.dist = name, "zorba.hats", f"package:{name}", None
        self._part = part

    def load(self) -> object:
        if isinstance(self._part, Exception):
            raise self._part
        return self._part


def test_own_parts_come_first_then_those_of_packages(monkeypatch):
    registry = hats(monkeypatch, [Entry("top", Hat("top")), Entry("cap", Hat("cap"))])
    assert list(registry) == ["bowler", "beret", "cap", "top"]
    assert registry["cap"] == Hat("cap")


def test_a_part_of_ours_is_read_without_importing_other_packages(monkeypatch, caplog):
    """Modules read ours while they load; a package that imports those modules cannot be loaded by then."""
    loaded = []
    registry = hats(monkeypatch, [Entry("cap", Hat("cap"))])
    monkeypatch.setattr(Entry, "load", lambda entry: loaded.append(entry.name) or Hat(entry.name))
    assert registry["beret"] == Hat("beret")
    assert loaded == []
    assert registry["cap"] == Hat("cap")
    assert loaded == ["cap"]


def test_a_script_adds_a_part_and_takes_it_out_again(monkeypatch):
    registry = hats(monkeypatch)
    fez = registry.register(Hat("fez"))
    assert registry.register(fez) is registry.get_part("fez") is fez
    assert len(registry) == 3
    registry.unregister("fez")
    with pytest.raises(InvalidInputError, match="unknown hat 'fez'; choose one of bowler, beret"):
        registry.get_part("fez")


def test_a_wrong_part_is_refused(monkeypatch):
    for part, says in {
        Hat("beret"): "there is a hat 'beret' already",
        Hat("fez", None): "this hat has no help",
        "text": "no hat: str is not a Hat",
    }.items():
        with pytest.raises(InvalidInputError, match=says):
            hats(monkeypatch).register(part)


def test_a_broken_plugin_is_one_warning_line_that_names_it(monkeypatch, caplog, subtests):
    for broken, says in [
        (ImportError("no module\nnamed felt"), "no module named felt"),
        (ZeroDivisionError(), "ZeroDivisionError"),
        ("a string", "this is no hat"),
        (Hat("bowler"), "there is a hat 'bowler' already"),
    ]:
        with subtests.test(broken=broken, says=says):
            caplog.clear()
            registry = hats(monkeypatch, [Entry("cap", Hat("cap")), Entry("odd", broken)])
            assert list(registry) == ["bowler", "beret", "cap"]
            (record,) = caplog.records
            assert record.levelname == "WARNING"
            assert "plugin odd (zorba.hats, package:odd) is skipped: " in record.getMessage()
            assert says in record.getMessage()
            assert "\n" not in record.getMessage()
