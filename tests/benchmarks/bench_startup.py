"""What `zorba train` does before its first round: `python -m tests.benchmarks.bench_startup LABEL [FILE]`.

One run of one round on a dataset, in this process: seconds from the start of the interpreter's work to each step, by
the wall and of this process's CPU. With ZORBA_CACHE set to a folder the second run reads what the first one kept.
Adds to FILE under LABEL; asserts nothing.
"""

from __future__ import annotations

import time

_STARTED = time.perf_counter() - time.process_time()  # the interpreter's own start was CPU time alone

import argparse  # noqa: E402 - the clock starts before anything is loaded
import contextlib  # noqa: E402
import io  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
from pathlib import Path  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("label")
    parser.add_argument("file", nargs="?", type=Path, default=Path("artifacts/benchmarks/startup.json"))
    parser.add_argument("--dataset", default="sst2")
    arguments = parser.parse_args()
    steps: dict[str, dict[str, float]] = {}

    def reached(step: str) -> None:
        if step not in steps:
            steps[step] = {"wall": time.perf_counter() - _STARTED, "cpu": time.process_time()}

    from zorba_core import cli

    cli.build_app()
    reached("command assembled")
    from zorba_core.engine import loop
    from zorba_core.files import read_json, write_json
    from zorba_core.runs import session

    reached("libraries loaded")
    for name, step in (("open_network", "model loaded"), ("divide_rows", "rows ready"), ("preflight", "checked")):
        _after(session, name, step, reached)
    _after(loop, "evaluate", "evaluated, first round begins", reached)
    with tempfile.TemporaryDirectory() as folder:
        words = ["--dataset", arguments.dataset, "--rounds", "1", "--clients", "20", "--runs-folder", folder, "--force"]
        sys.argv = ["zorba", "train", *words, "--json"]
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            cli.main()
    result = read_json(arguments.file) if arguments.file.is_file() else {}
    result[arguments.label] = {"dataset": arguments.dataset, "steps": steps, "load_average": os.getloadavg()[0]}
    write_json(arguments.file, result)
    print(json.dumps(steps, indent=1))


def _after(module, name, step, reached) -> None:
    function = getattr(module, name)

    def timed(*positional, **named):
        try:
            return function(*positional, **named)
        finally:
            reached(step)

    setattr(module, name, timed)


if __name__ == "__main__":
    main()
