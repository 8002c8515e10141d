"""``import zorba_core`` is light, and every name it offers is real."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import zorba_core
from zorba_core import allocation, engine, plots, runs

WITHOUT_TORCH = ", ".join(
    [
        "zorba_core",
        "zorba_core.fleet",
        "zorba_core.vram",
        "zorba_core.engine.parts",
        "zorba_core.engine.communication",
        "zorba_core.allocation",
        "zorba_core.runs",
        "zorba_core.cli",
        "zorba_core.federation.options",
    ]
)


def test_allocating_blocks_and_assembling_the_command_load_neither_torch_nor_plotly():
    code = (
        f"import sys, {WITHOUT_TORCH}; zorba_core.front(zorba_core.Fleet.uniform('opt-125m'), 10); "
        "zorba_core.cli.build_app(); "
        "print([name for name in ('torch', 'transformers', 'plotly', 'streamlit') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_changes_nothing_outside_of_the_package():
    code = (
        "import gc, os, signal; "
        "state = lambda: (dict(os.environ), gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), "
        "signal.getsignal(signal.SIGINT)); "
        f"before = state(); import {WITHOUT_TORCH}; zorba_core.Fleet; zorba_core.solve; assert state() == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_can_be_had():
    for name in zorba_core.__all__:
        assert getattr(zorba_core, name) is not None


@pytest.mark.parametrize("package", [zorba_core, allocation, engine, plots, runs], ids=lambda each: each.__name__)
def test_no_name_that_a_package_offers_is_also_its_module(package):
    """``import zorba_core.allocation.front as front`` would bring the function."""
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert modules & set(package.__all__) == set()
