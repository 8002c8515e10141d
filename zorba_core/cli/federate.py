"""``zorba federate``: fine-tune with clients in processes of their own, over Flower, or simulated in one."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from zorba_core.cli.allocation_choice import AllocationChoice
from zorba_core.cli.options import options_of
from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.cli.train import FolderOptions, TaskOptions, summary_lines, supervised
from zorba_core.data.divide import NATURAL, division_of, named_clients
from zorba_core.data.own_rows import file_clients, files_of, is_many
from zorba_core.data.task import METRIC_TITLES, TableRows, Task, table_of
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.federation.options import ServerOptions
from zorba_core.files import check_folder, to_json
from zorba_core.runs import Run

DEFAULT_CLIENTS = 4  # processes, where nothing says how many
_SUITED = dict.fromkeys(("lr", "schedule", "direction", "directions"))  # Settings.suited decides where left out
_FIRST, _FEDERATION = "What most people need", "Federation"
_ELSEWHERE = dict.fromkeys(("data", "test", "model", "clients", "rounds", "lr"), _FIRST)


def federate(
    task: TaskOptions = options_of(TaskOptions, panel="Data", elsewhere=_ELSEWHERE),
    choice: AllocationChoice = options_of(
        AllocationChoice,
        panel="Allocation",
        elsewhere=_ELSEWHERE,
        help={"clients": "Clients, one process each; default: those that the rows or budgets name, else 4."},
    ),
    settings: dict[str, Any] = options_of(
        Settings,
        panel="Training",
        elsewhere=_ELSEWHERE,
        without=("num_seeds", "inactive", "device", "precision", "target"),
        make=dict,
        defaults={**_SUITED, "rounds": 20, "eval_every": 5, "estimator": "cohort"},
        text=("lr",),
        help={"lr": "Learning rate, or auto: by some ten trial rounds with the clients; default: auto."},
    ),
    options: ServerOptions = options_of(ServerOptions, panel=_FEDERATION),
    folder: FolderOptions = options_of(FolderOptions, panel="Run"),
    simulate: bool = typer.Option(
        False, "--simulate", help="Virtual clients in this process, without a network.", rich_help_panel=_FIRST
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Start a SuperLink and one SuperNode for each client on this machine, each with its own rows, fine-tune with
    them, and end them all.

    Ctrl-C ends the run after the round at hand, a second one at once; zorba resume continues it. How to deploy on
    several hosts is in zorba_core/federation/README.md.
    """
    from zorba_core.runs.load import read_spec

    _check_flower()
    check_folder(folder.runs_folder)
    task = task.with_model()
    model = str(Path(task.model).resolve()) if os.path.isdir(task.model) else task.model
    spec = read_spec(model)
    find_lr = settings["lr"] in (None, "auto")
    settings = Settings.suited(spec.num_parameters, **settings | ({"lr": None} if find_lr else {}))
    chosen_task = task.task()  # before anything slow
    named = named_clients(chosen_task, task.division)
    if not simulate and not named and (choice.clients, choice.budgets, choice.fleet, choice.allocation) == (None,) * 4:
        choice = choice.replace(clients=DEFAULT_CLIENTS)
    allocation, origin = choice.allocation_for(spec, settings, named)
    division = division_of(chosen_task, task.division)
    nodes = _nodes(chosen_task, division, allocation.num_clients, model)
    config = {
        "clients": allocation.num_clients,
        "model": model,
        "label-words": to_json(task.words) if task.words and task.data is None else "",
        **({"task": to_json(table_of(chosen_task))} if chosen_task.is_own else {"dataset": chosen_task.name}),
        "division": division,
        "alpha": task.alpha,
        "allocation": to_json({**origin, "blocks_per_client": allocation.blocks_per_client}),
        "find-lr": find_lr,
        **{name.replace("_", "-"): value for name, value in dict(options).items()},
        "threads": folder.threads,
        "force": folder.force,
        "runs-folder": str(folder.runs_folder.resolve()),
        "name": folder.name or "",
        **{f"settings.{name}": "" if value is None else value for name, value in settings.model_dump().items()},
    }
    _show(_served(config, nodes, simulate, settings.rounds, METRIC_TITLES[chosen_task.counted]), as_json)


def resume_federated(run: Run, as_json: bool) -> None:
    """Continue a federated run whose server died, with the clients started anew: they catch up from its log.

    Raises:
        InvalidInputError: its clients were not started by ``zorba federate``.
    """
    _check_flower()
    started = run.config["federation"]
    if "nodes" not in started:
        raise InvalidInputError(
            f"{run.path}: its clients are on other hosts; resume it with: flwr run APP SUPERLINK --run-config "
            f"'resume=\"{run.path.resolve()}\"'"
        )
    config = {"resume": str(run.path.resolve())}
    metric = METRIC_TITLES[run.task.counted]
    _show(_served(config, started["nodes"], started["simulated"], run.settings.rounds, metric), as_json)


def _served(
    config: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], simulate: bool, rounds: int, metric: str
) -> Run:
    from zorba_core.federation.loopback import federate_on_loopback
    from zorba_core.federation.request import Request, run_config
    from zorba_core.federation.server_app import serve
    from zorba_core.federation.simulate import LocalGrid

    request = Request.of(run_config(**config))  # what is wrong comes before anything is started
    started = {"simulated": simulate, "nodes": nodes}
    options = {"notice": lambda line: typer.echo(line, err=True), "started": started}
    if simulate:
        return supervised(rounds, lambda calls: serve(request, LocalGrid(nodes), callbacks=calls, **options), metric)
    return supervised(rounds, lambda calls: federate_on_loopback(config, nodes, callbacks=calls, **options), metric)


def _nodes(task: Task, division: str, clients: int, model: str) -> list[dict[str, Any]]:
    """The clients' ``--node-config``: the file with its own rows where there is one for each client and rows to test
    on, else where its part of the rows is to be taken from."""
    rows: list[dict[str, str]] = [{}] * clients
    if isinstance(task.rows, TableRows):
        rows = [{"data": task.rows.train}] * clients
        if division == NATURAL and is_many(task.rows.train) and not task.rows.client and task.rows.test is not None:
            files = files_of(task.rows.train)
            files = [file for _, file in sorted(zip(file_clients(files), files, strict=True))]
            if len(files) != clients:
                raise InvalidInputError(f"there are {len(files)} files and {clients} clients; make them agree")
            rows = [{"rows": file} for file in files]
    return [{"partition-id": n, "num-partitions": clients, "model": model, **own} for n, own in enumerate(rows)]


def _check_flower() -> None:
    if importlib.util.find_spec("flwr") is None:
        raise MissingDataError(
            "Flower 1.41 is not installed here: pip install -c constraints.txt torch==2.13.0 -e '.[flower]'"
        )


def _show(run: Run, as_json: bool) -> None:
    summary, equal = run.summary, [client["equal"] for client in run.summary["replicas"]]
    replicas = f"  {sum(equal)} of {len(equal)} replicas have the server's weights, {summary['weights_sha256'][:16]}"
    emit({"run": str(run.path), **summary}, as_json, [*summary_lines(run), replicas])
