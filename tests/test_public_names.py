"""``import zorba_core`` is light, and every name it offers is real."""

from __future__ import annotations

import subprocess
import sys

import zorba_core

PLANNING = ", ".join(
    [
        "zorba_core",
        *(f"zorba_core.planning.{name}" for name in ("fleets", "memory", "methods", "communication")),
        "zorba_core.allocation",
        "zorba_core.runs",
        "zorba_core.cli",
        "zorba_core.study.printed_communication",
    ]
)


def test_planning_a_fleet_loads_neither_torch_nor_plotly():
    code = (
        f"import sys, {PLANNING}; zorba_core.solve; zorba_core.sweep;"
        "print([name for name in ('torch', 'transformers', 'plotly', 'streamlit') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_can_be_had():
    assert sorted(zorba_core._MODULE_OF) == sorted(zorba_core.__all__)
    for name in zorba_core.__all__:
        assert getattr(zorba_core, name) is not None
