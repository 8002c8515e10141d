"""The wheel is enough: in an empty folder with an empty home it does what the README shows.

The wheel is built from the source archive, as an installation from there would. It is unpacked without requirements,
which this environment has. One process of that folder does everything, since each would load torch again.
"""

from __future__ import annotations

import email
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from zorba_core.version import __version__

ROOT = Path(__file__).resolve().parents[1]
SMALL = "--model opt-mini --clients 4 --rounds 1 --lr 0.01 --eval-rows 20 --json"
COMMANDS = {
    "allocate": "allocate --budgets 11,9,3,2,1,1 --blocks 12 --json",
    "train": f"train {SMALL} --name mine",
    "federate": f"federate --simulate {SMALL}",
    "runs": "runs --json",
    "notebooks": "notebooks walkthroughs --json",
}
DRIVER = """
import contextlib, io, json, sys
checkout, example, commands, pages = json.loads(sys.stdin.read())
sys.path[:] = [entry for entry in sys.path if entry != checkout]  # an editable installation adds it
import zorba_core.cli
from zorba_core.installed import dashboard

said = {}
def call(name, work):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            work()
        except SystemExit as end:
            assert not end.code, (name, end.code)
    said[name] = out.getvalue()

call("readme", lambda: exec(example, {}))
for name, words in commands.items():
    sys.argv = ["zorba", *words.split()]
    call(name, zorba_core.cli.main)
run = json.loads(said["train"])["run"].split("/")[-1]
sys.argv = ["zorba", "predict", run, "--text", "a quiet delight", "--json"]
call("predict", zorba_core.cli.main)

from streamlit.testing.v1 import AppTest

page = AppTest.from_file(str(dashboard()), default_timeout=300).run()
wrong = lambda: [each.value for each in [*page.exception, *page.error]]
said["pages"], said["titles"] = {"": wrong()}, []
for name in pages:
    page.switch_page(f"views/{name}.py").run()
    said["pages"][name] = wrong()
    said["titles"] += [title.value for title in page.title]
files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
said["from the checkout"] = [file for file in files if file.startswith(checkout) and "site-packages" not in file]
print(json.dumps(said))
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run([*build, "-t", "sdist"], cwd=ROOT, check=True, capture_output=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        source.extractall(folder, filter="data")
    unpacked = folder / archive.name.removesuffix(".tar.gz")
    subprocess.run([*build, "-t", "wheel"], cwd=unpacked, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def place(wheel, tmp_path_factory) -> Path:
    """A folder with a space in its name: ``site`` has the unpacked wheel, ``home`` and ``work`` are empty."""
    folder = tmp_path_factory.mktemp("any where")
    for name in ("home", "work"):
        (folder / name).mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder


@pytest.fixture(scope="module")
def variables(place) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("ZORBA_", "PYTHON"))}
    return own | {"PYTHONPATH": str(place / "site"), "HOME": str(place / "home"), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="module")
def said(place, variables) -> dict:
    """What the README's Python, the commands and the pages say."""
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    short, changed = re.subn(r"rounds=\d+", "rounds=1, lr=0.01, eval_rows=20", example)
    assert changed == 1
    pages = [path.stem for path in sorted((ROOT / "app" / "views").glob("*.py"))]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        cwd=place / "work",
        env=variables,
        input=json.dumps([str(ROOT), short, COMMANDS, pages]),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_wheel_has_two_packages_four_extras_and_this_version(wheel):
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
        facts = email.message_from_bytes(archive.read(f"zorba_core-{__version__}.dist-info/METADATA"))
    assert tops == {"zorba_core", "zorba_app", f"zorba_core-{__version__}.dist-info"}
    assert facts["Version"] == __version__
    assert set(facts.get_all("Provides-Extra")) == {"app", "notebooks", "flower", "all", "dev"}
    assert wheel.stat().st_size < 15e6


def test_nothing_comes_from_the_checkout(said):
    assert said["from the checkout"] == []


def test_the_readmes_python_trains_the_small_model(said):
    assert " -> " in said["readme"].splitlines()[1]


def test_commands_train_federate_and_predict_in_the_folder_runs(said, place):
    names = {json.loads(said[name])["run"] for name in ("train", "federate")}
    assert {(place / "work" / name).parent for name in names} == {place / "work" / "runs"}
    assert {run["run"] for run in json.loads(said["runs"])["runs"]} >= {Path(name).name for name in names}
    assert json.loads(said["predict"])["prediction"] in ("negative", "positive")
    assert {path.name for path in (place / "work").iterdir()} == {"runs", "walkthroughs"}
    assert [*(place / "home").iterdir()] == []


def test_every_page_of_the_dashboard_opens(said):
    assert {name: wrong for name, wrong in said["pages"].items() if wrong} == {}
    assert "Is the paper right?" in said["titles"]


def test_copied_walkthroughs_run_with_the_stored_results(said, place, variables):
    folder = place / "work" / "walkthroughs"
    assert len(json.loads(said["notebooks"])["notebooks"]) == len([*folder.glob("*.ipynb")]) == 8
    notebook = nbformat.read(folder / "06_does_lambda_predict.ipynb", as_version=4)
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code"][:1]
    notebook.cells.append(nbformat.v4.new_code_cell("len(experiment('blocks')) > 0"))
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute(env=variables)
    assert notebook.cells[-1].outputs[0].data["text/plain"] == "True"
