"""Imports run downward: the small core knows nothing of what is built on it, and allocating never loads torch."""

from __future__ import annotations

import ast
import graphlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "zorba_core"
# From the ground up; a room may import from rooms before it, and from itself.
GROUND = ("version", "errors", "installed", "lazy", "logs", "files", "tables", "registry", "checked", "show")
ROOMS = (*GROUND, "vram", "fleet", "allocation", "engine")
ROOMS = (*ROOMS, "data", "runs", "federation", "plots", "cli")
CORE, WITHOUT_TORCH = ("vram", "fleet", "allocation", "engine"), ("fleet", "allocation")
CORE_LINES = 6800


def modules(room: str) -> list[Path]:
    return sorted((PACKAGE / room).rglob("*.py")) or [PACKAGE / f"{room}.py"]


def imported(path: Path) -> set[str]:
    """Every module that the file imports, wherever the import stands; imported names count as modules."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def rooms_of(path: Path) -> set[str]:
    inside = {name.split(".")[1] for name in imported(path) if name.startswith("zorba_core.")}
    return inside & set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_nothing_from_above_it(room):
    allowed = set(ROOMS[: ROOMS.index(room) + 1])
    upward = {str(path.relative_to(PACKAGE)): rooms_of(path) - allowed for path in modules(room)}
    assert {path: above for path, above in upward.items() if above} == {}


def test_the_core_imports_neither_the_notebooks_nor_the_app():
    outside = {"app", "notebooks", "tests"}
    roots = {str(path): {name.split(".")[0] for name in imported(path)} & outside for path in PACKAGE.rglob("*.py")}
    assert {path: names for path, names in roots.items() if names} == {}


def test_every_module_lies_in_a_room():
    assert {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__", *ROOMS} == set()
    assert {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"} <= set(ROOMS)


@pytest.mark.parametrize("room", WITHOUT_TORCH)
def test_fleet_and_allocation_import_no_torch(room):
    heavy = {"torch", "transformers", "plotly", "streamlit"}
    found = {path.name: {name.split(".")[0] for name in imported(path)} & heavy for path in modules(room)}
    assert {name: modules for name, modules in found.items() if modules} == {}


def test_modules_import_each_other_in_no_circle():
    """Every import counts, within functions and for type checkers too: whoever reads one module of a circle has to read
    them all."""
    paths = sorted(PACKAGE.rglob("*.py"))
    names = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in paths}
    names = {name.removesuffix(".__init__"): path for name, path in names.items()}
    needs = {
        name: {one if one in names else one.rpartition(".")[0] for one in imported(path)} & set(names) - {name}
        for name, path in names.items()
    }
    assert list(graphlib.TopologicalSorter(needs).static_order())  # a circle raises, and names its modules


def test_the_core_stays_small():
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for room in CORE for path in modules(room))
    assert lines <= CORE_LINES
