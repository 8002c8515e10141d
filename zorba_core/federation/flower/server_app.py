"""The ServerApp: reads the request that the app folder names, serves the run, and writes how it ended."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from zorba_core.data.tasks import METRIC_TITLES
from zorba_core.engine.callbacks import Callback
from zorba_core.errors import InvalidInputError, ZorbaError
from zorba_core.federation.config import RunConfig, ServerSettings
from zorba_core.federation.flower.locks import held
from zorba_core.federation.flower.transport import FlowerTransport
from zorba_core.federation.request import configs_of
from zorba_core.federation.session import resume, serve
from zorba_core.files import open_own, read_json, write_json
from zorba_core.runs.run_task import task_of
from zorba_core.runs.terminal import Progress

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
    """The run that a request asks for, with the clients of a grid. Whoever started the server waits for ``result.json``
    beside it, so that is written however this ends; where it cannot be, the request is held no longer."""
    with held(path):
        _serve(grid, path)


def _serve(grid: Grid, path: Path) -> None:
    folder = path.parent
    try:
        request = _read_request(path)
        log = _open_log(folder)
    except ZorbaError as error:
        write_json(folder / "result.json", _failed(error))
        return
    transport = FlowerTransport(grid)
    with log:

        def tell(line: str) -> None:
            print(line, file=log)

        progress = Progress(request.config.settings.rounds, log, request.counted)
        callbacks = [_NameFolder(folder / "run.json"), progress]
        result: dict[str, Any] = {"state": "failed", "error": "it was ended from outside", "exit_status": 1}
        try:
            if request.resume:
                run = resume(request.resume, transport, model=request.model, callbacks=callbacks, tell=tell)
            else:
                run = serve(
                    request.config,
                    request.settings,
                    transport,
                    runs_folder=request.runs_folder,
                    name=request.name,
                    callbacks=callbacks,
                    tell=tell,
                    force=request.force,
                )
            result = {"state": "done", "run": str(run.path), "summary": run.summary}
        except ZorbaError as error:
            result = _failed(error)
            tell(f"failed: {error}")
        except Exception as error:
            result = {"state": "failed", "error": f"{type(error).__name__}: {error}", "exit_status": 1}
            raise
        finally:
            write_json(folder / "result.json", result)


def _open_log(folder: Path) -> TextIO:
    return open(folder / "server.log", "a", encoding="utf-8", buffering=1, opener=open_own)


@dataclass(frozen=True)
class _Request:
    """What :func:`zorba_core.federation.flower.app_folder.write_request` wrote, read back."""

    config: RunConfig
    settings: ServerSettings
    counted: str  # what the task counts, for the lines of the log
    runs_folder: str
    name: str | None
    resume: str | None
    model: str | None
    force: bool


def _read_request(path: Path) -> _Request:
    """
    Raises:
        InvalidInputError: the file is not there, damaged, or asks for what cannot be.
    """
    anew = "start the federation again with zorba federation up, which writes it anew"
    try:
        content = read_json(path)
        config, settings = configs_of(path, content["config"])
        counted = METRIC_TITLES[task_of(content["config"]).counted]
        own = {name: content[name] for name in ("runs_folder", "name", "resume", "model", "force")}
        return _Request(config, settings, counted, **own)
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror}; {anew}") from None
    except (ValueError, KeyError) as error:
        raise InvalidInputError(f"{path}: {error}; {anew}") from None


def _failed(error: ZorbaError) -> dict[str, Any]:
    return {"state": "failed", "error": str(error), "exit_status": error.exit_status}


def _end_with_parent(parent: int) -> None:
    """End when the SuperLink's executor is gone. Flower asks for that too, but a process that waits for a SuperLink to
    come back may not hear it. Every round is on disk before its average is sent, so nothing is lost."""
    while os.getppid() == parent:
        time.sleep(1.0)
    time.sleep(_GRACE)
    os._exit(1)
