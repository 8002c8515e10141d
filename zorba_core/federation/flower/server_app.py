"""The ServerApp: reads the request that the app folder names, serves the run, and writes how it ended."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from zorba_core.data.task import METRIC_TITLES
from zorba_core.errors import ZorbaError
from zorba_core.federation.flower.loopback import FAILED
from zorba_core.federation.flower.transport import FlowerTransport
from zorba_core.federation.request import configs_of
from zorba_core.federation.session import resume, serve
from zorba_core.files import read_json, write_json
from zorba_core.runs.complete import Callback
from zorba_core.runs.folder import task_of
from zorba_core.runs.terminal import Progress

app = ServerApp()


class _NameFolder(Callback):
    """Writes down which run folder it is, so that whoever restarts the server finds it."""

    def __init__(self, target: Path) -> None:
        self._target = target

    def on_start(self, folder: Path) -> None:
        write_json(self._target, {"run": str(folder.resolve())})


@app.main()
def main(grid: Grid, context: Context) -> None:
    """One run, new or resumed."""
    serve_request(grid, Path(str(context.run_config["request"])))


def serve_request(grid: Grid, path: Path) -> None:
    """The run that a request asks for, with the clients of a grid. Beside the request, ``server.log`` says how it goes
    and ``result.json`` how it ended."""
    result = {"error": "it was ended from outside"}
    try:
        request = read_json(path)
        config, settings = configs_of(path, request["config"])
        counted = METRIC_TITLES[task_of(request["config"]).counted]
        with open(path.with_name("server.log"), "a", encoding="utf-8", buffering=1) as log:
            tell = partial(print, file=log)
            progress = Progress(config.settings.rounds, log, counted)
            callbacks = [_NameFolder(path.with_name("run.json")), progress]
            try:
                if request["resume"]:
                    run = resume(request["resume"], FlowerTransport(grid), callbacks=callbacks, tell=tell)
                else:
                    run = serve(
                        config,
                        settings,
                        FlowerTransport(grid),
                        runs_folder=request["runs_folder"],
                        name=request["name"],
                        callbacks=callbacks,
                        tell=tell,
                        force=request["force"],
                    )
                result = {"run": str(run.path)}
            except ZorbaError as error:
                result = {"error": str(error)}
                tell(f"{FAILED}{error}")
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}"}
        raise
    finally:
        write_json(path.with_name("result.json"), result)
