"""The ServerApp: reads the request that the app folder names, serves the run, and writes how it ended."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from zorba_core.checksums import read_sealed, write_sealed
from zorba_core.data.tasks import METRIC_TITLES
from zorba_core.engine.callbacks import Callback, Progress
from zorba_core.errors import ZorbaError
from zorba_core.federation.flower.transport import FlowerTransport
from zorba_core.federation.request import configs_of
from zorba_core.federation.session import resume, serve
from zorba_core.files import write_json
from zorba_core.runs.run_task import task_of

app = ServerApp()
_GRACE = 5.0  # seconds


class _NameFolder(Callback):
    """Writes down which run folder it is, so that whoever restarts the server finds it."""

    def __init__(self, target: Path) -> None:
        self._target = target

    def on_start(self, folder: Path) -> None:
        write_json(self._target, {"run": str(folder.resolve())})


@app.main()
def main(grid: Grid, context: Context) -> None:
    """One run, new or resumed; ``result.json`` beside the request says how it ended."""
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    serve_request(grid, Path(str(context.run_config["request"])))


def serve_request(grid: Grid, path: Path) -> None:
    """The run that a request asks for, with the clients of a grid."""
    folder = path.parent
    try:
        request = read_sealed(path)
    except ZorbaError as error:
        write_json(folder / "result.json", {"state": "failed", "error": str(error), "exit_status": error.exit_status})
        return
    transport = FlowerTransport(grid)
    with (folder / "server.log").open("a", encoding="utf-8", buffering=1) as log:

        def tell(line: str) -> None:
            print(line, file=log)

        counted = METRIC_TITLES[task_of(request["config"]).counted]
        progress = Progress(request["config"]["rounds"], log, counted)
        callbacks = [_NameFolder(folder / "run.json"), progress]
        try:
            if request["resume"]:
                run = resume(request["resume"], transport, model=request["model"], callbacks=callbacks, tell=tell)
            else:
                config, settings = configs_of(path, request["config"])
                run = serve(
                    config,
                    settings,
                    transport,
                    runs_folder=request["runs_folder"],
                    name=request["name"],
                    callbacks=callbacks,
                    tell=tell,
                    force=request["force"],
                )
            result = {"state": "done", "run": str(run.path), "summary": run.summary}
            write_sealed(run.path / "wire.json", transport.meter.describe())
        except ZorbaError as error:
            result = {"state": "failed", "error": str(error), "exit_status": error.exit_status}
            tell(f"failed: {error}")
        except Exception as error:
            result = {"state": "failed", "error": f"{type(error).__name__}: {error}", "exit_status": 1}
            raise
        finally:
            write_json(folder / "result.json", {**result, "wire": transport.meter.describe()})


def _end_with_parent(parent: int) -> None:
    """End when the SuperLink's executor is gone. Flower asks for that too, but a process that waits for a SuperLink to
    come back may not hear it. Every round is on disk before its average is sent, so nothing is lost."""
    while os.getppid() == parent:
        time.sleep(1.0)
    time.sleep(_GRACE)
    os._exit(1)
