"""Where this installation has its parts: a checkout of the project, or a package that pip installed from a wheel.

A wheel has a few folders of the checkout under other names: ``app`` as the package ``zorba_app``, ``notebooks`` and
parts of ``artifacts`` inside ``zorba_core`` (pyproject.toml lists them).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

from zorba_core.errors import MissingDataError

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parent


def is_checkout() -> bool:
    """Whether the package lies in a checkout, whose folders are not copied into it."""
    return not (_PACKAGE / "artifacts").is_dir()


def artifacts() -> Path:
    """The stored results: the small model, a run, tables of experiments, benchmarks, claims."""
    return (_CHECKOUT if is_checkout() else _PACKAGE) / "artifacts"


def notebooks() -> Path:
    """The folder of the walkthroughs."""
    return (_CHECKOUT if is_checkout() else _PACKAGE) / "notebooks"


def dashboard() -> Path:
    """The script that Streamlit runs."""
    return _CHECKOUT / ("app" if is_checkout() else "zorba_app") / "main.py"


def dashboard_module(name: str) -> ModuleType:
    """A module of the dashboard, loaded now. Its package is called ``app`` in a checkout and in a wheel.

    Raises:
        MissingDataError: another module is loaded under that name.
    """
    folder = dashboard().parent
    if "app" not in sys.modules:
        sys.path.insert(0, str(folder.parent))  # before the user's folder, which may have an app too
        try:
            importlib.import_module(folder.name)  # zorba_app then answers to the name app
        finally:
            sys.path.remove(str(folder.parent))
    elif (other := getattr(sys.modules["app"], "__file__", None)) != str(folder / "__init__.py"):
        raise MissingDataError(f"the dashboard is a package called app, but {other} has this name: give it another")
    return importlib.import_module(f"app.{name}")


def missing_packages(*modules: str) -> list[str]:
    """Those of these modules that cannot be imported; none is loaded."""
    return [name for name in modules if importlib.util.find_spec(name) is None]


def install_command(extra: str) -> str:
    """The command that installs an extra's packages into this environment. It needs no checkout and no wheel file."""
    marker = f'extra == "{extra}"'
    needed = [line.partition(";") for line in importlib.metadata.requires("zorba-core") or ()]
    names = [f"'{name.strip()}'" for name, _, condition in needed if marker in condition.replace("'", '"')]
    return f"pip install {' '.join(names)}"


def runs_folder() -> Path:
    """Where new runs go: ``ZORBA_RUNS``; else ``artifacts/runs`` if the working directory is a checkout, ``runs`` if
    not."""
    if named := os.environ.get("ZORBA_RUNS"):
        return Path(named).expanduser()
    return Path("artifacts/runs" if Path("zorba_core/runs").is_dir() else "runs")
