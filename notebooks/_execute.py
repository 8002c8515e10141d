"""Run notebooks in fresh kernels and store their outputs: `python notebooks/_execute.py 04 05 06`, no names for all.

The same inputs give the same bytes: no timings and no widget identities are stored. A notebook is written when all of
its cells have run; one that fails is left as it was and named.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from zorba_core.files import write_text

FOLDER = Path(__file__).resolve().parent
WIDGET = "application/vnd.jupyter.widget-view+json"
CELL_SECONDS = 300


def execute(path: Path) -> NotebookNode:
    """The notebook with the outputs of a fresh kernel, free of everything that another run would store otherwise.

    Raises:
        CellExecutionError: a cell failed.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,  # when a kernel flushes what is printed is a matter of time
    )
    client.execute(env={**os.environ, "PLOTLY_RENDERER": "png"})
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python", "version": "3.11"},
    }
    for index, cell in enumerate(notebook.cells):
        cell.id = f"{'md' if cell.cell_type == 'markdown' else cell.cell_type}-{index:02d}"
        if cell.cell_type == "code":
            # A stored view of a widget shows nothing without the kernel that made it.
            cell.outputs = [output for output in cell.outputs if WIDGET not in output.get("data", {})]
    return notebook


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="how a notebook's name begins, such as 04; all when left out")
    names = parser.parse_args().names
    paths = sorted(FOLDER.glob("*.ipynb"))
    chosen = [path for path in paths if not names or any(path.name.startswith(name) for name in names)]
    for name in names:
        if not any(path.name.startswith(name) for path in paths):
            parser.error(f"no notebook begins with {name!r}; there are {', '.join(path.stem for path in paths)}")
    failed = 0
    for path in chosen:
        try:
            write_text(path, nbformat.writes(execute(path)) + "\n")
            print(f"{path.name}: stored", flush=True)
        except CellExecutionError as error:
            failed += 1
            print(f"{path.name}: {error.ename}: {error.evalue}; left as it was", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
