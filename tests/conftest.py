"""What every test may rely on: one thread, no network for model hubs, and honest skips.

A test marked ``data`` needs the real datasets (``ZORBA_DATA``), one marked ``browser`` needs Chromium. Without them the
test is skipped with that reason; where ``ZORBA_CI`` is set, Chromium must be there, and so must the datasets if
``ZORBA_DATA`` is set: then a skip is a failure.
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

gc.disable()  # while the tests are imported, which makes objects and no garbage
atexit.register(gc.freeze)  # nor is there any to look for while a process ends
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

ROOT = Path(__file__).resolve().parent.parent


def _missing(marker: str) -> str | None:
    if marker == "data":
        folder = os.environ.get("ZORBA_DATA")
        if not folder:
            return "needs the real datasets: set ZORBA_DATA to their folder"
        if not Path(folder, "sst2", "train.parquet").is_file():
            return f"needs the real datasets: ZORBA_DATA={folder} has no sst2/train.parquet"
    if marker == "browser":
        from zorba_core.plots.pictures import browser

        return None if browser() else "needs chromium-headless-shell or chromium on the PATH"
    return None


def pytest_configure(config: pytest.Config) -> None:
    """Tiny models are fixtures of all tests. They load torch, which a process that only hands out tests need not."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.import_plugin("tests.tiny_models")


def pytest_runtest_setup(item: pytest.Item) -> None:
    in_ci = bool(os.environ.get("ZORBA_CI"))
    for marker in ("data", "browser"):
        if item.get_closest_marker(marker) is None:
            continue
        reason = _missing(marker)
        if reason is None:
            continue
        if in_ci and (marker == "browser" or os.environ.get("ZORBA_DATA")):
            pytest.fail(f"in CI this may not be skipped: {reason}", pytrace=False)
        pytest.skip(reason)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files and notebooks first: workers take whole files, and a long one at the end keeps all waiting."""
    long = {item.path for item in items if item.get_closest_marker("slow") or item.get_closest_marker("browser")}
    items.sort(key=lambda item: item.path not in long and item.path.suffix != ".ipynb")


def pytest_collection_finish() -> None:
    """What is imported by now stays: the collector, which Streamlit calls after each run of a page, need not look."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Returns the lines that the package has logged since the last call."""
    caplog.set_level(logging.INFO, "zorba_core")

    def lines() -> list[str]:
        taken = [record.getMessage() for record in caplog.records if record.name.startswith("zorba_core")]
        caplog.clear()
        return taken

    return lines


@pytest.fixture
def example_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts of tests/plugin_example are registered in this process while the test runs."""
    from tests.plugin_example.zorba_example import CENTRAL, MIDWAY, MOMENTUM, TICKETS
    from zorba_core.data.task import TASKS
    from zorba_core.engine.parts import AVERAGES, ESTIMATORS, METHODS

    for registry, part in ((METHODS, MOMENTUM), (AVERAGES, MIDWAY), (ESTIMATORS, CENTRAL), (TASKS, TICKETS)):
        monkeypatch.setattr(registry, "_parts", dict(registry))
        registry.register(part)


@pytest.fixture(scope="session")
def example_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PYTHONPATH on which tests/plugin_example is installed, as pip installs any package."""
    source, site = tmp_path_factory.mktemp("source") / "example", tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "tests" / "plugin_example", source)  # a build leaves files beside its sources
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index", "--target"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(site), str(source)], check=True, timeout=600)
    return os.pathsep.join([str(site), str(ROOT)])
