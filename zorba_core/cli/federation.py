"""``zorba federation``: the training protocol between real processes, over Flower."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from zorba_core.cli.options import options_of
from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.cli.train import FolderOptions, TaskOptions
from zorba_core.data.divide import DIRICHLET
from zorba_core.data.task import METRIC_TITLES
from zorba_core.engine.methods.registry import method_facts
from zorba_core.engine.settings import Settings
from zorba_core.errors import InvalidInputError, RunError, ZorbaError
from zorba_core.federation.config import RunConfig, ServerSettings
from zorba_core.federation.messages import MAX_SEATS
from zorba_core.federation.robust import AggregationSettings
from zorba_core.files import check_folder, read_json, write_json
from zorba_core.runs import Run
from zorba_core.vram import MAX_VRAM_GIB

if TYPE_CHECKING:
    from zorba_core.data.task import Task

# What the server's clients take of a run's settings.
_TRAINED_WITH = (
    "method",
    "rounds",
    "seed",
    "directions",
    "batch_size",
    "seq_len",
    "mu",
    "lr",
    "schedule",
    "direction",
    "lora_rank",
    "estimator",
    "participation",
    "eval_every",
    "eval_rows",
)
_NODES = "nodes.json"
DEFAULT_SEATS = 4
_DEFAULT_BLOCKS = (12, 6, 4, 2)  # by client, and again from the first, where the method lets each activate some


def up(
    task_options: TaskOptions = options_of(
        TaskOptions,
        defaults={"dataset": None},
        help={
            "dataset": "Or a built-in task: {choices}; default sst2 where its data is.",
            "model": "opt-mini, or a Hugging Face folder that every client has too.",
        },
    ),
    settings: Settings = options_of(
        Settings,
        *_TRAINED_WITH,
        defaults={"rounds": 20, "eval_every": 5, "estimator": "cohort"},
    ),
    serving: dict[str, Any] = options_of(
        ServerSettings,
        without=("aggregation", "evaluate_on"),
        make=dict,
        defaults={"min_clients": None, "start_timeout": 180.0},
    ),
    aggregation: AggregationSettings = options_of(AggregationSettings),
    output: dict[str, Any] = options_of(FolderOptions, "runs_folder", "name", "force", make=dict),
    clients: int | None = typer.Option(
        None, min=1, max=MAX_SEATS, help="Seats, one SuperNode each; default: the clients that the rows name, else 4."
    ),
    blocks: str | None = typer.Option(None, help="Most blocks of each client, e.g. 12,6,4,2."),
    vram_gib: str | None = typer.Option(None, help="Or the VRAM that each client can spare, e.g. 0.02,0.03."),
    folder: Path | None = typer.Option(None, help="For logs and replicas, kept; default: temporary."),
    resume: Path | None = typer.Option(
        None, help="Go on with that federated run, under its own settings; --folder keeps its replicas."
    ),
    simulated: bool = typer.Option(
        False, "--simulated", help="Virtual clients in Flower's simulation runtime (extra ray, whose ports are open)."
    ),
    app_only: bool = typer.Option(False, "--app-only", help="Write request and app to --folder, and start nothing."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Start a SuperLink and one SuperNode for each client on this machine's loopback, fine-tune, and end them all.

    Ctrl-C ends everything at once; the run so far is kept; continue it with --resume. For clients on other machines
    write the app with --app-only and follow zorba_core/federation/README.md.
    """
    from zorba_core.federation.flower.app_folder import write_app, write_request
    from zorba_core.federation.flower.loopback import federate_on_loopback
    from zorba_core.federation.flower.simulation import simulate
    from zorba_core.federation.local_files import share_out
    from zorba_core.federation.request import check_config, configs_of, request_config
    from zorba_core.runs import read_run
    from zorba_core.runs.folder import check_name
    from zorba_core.runs.resume import check_unfinished

    for written in (output["runs_folder"], *([] if folder is None else [folder])):
        check_folder(written)
    if output["name"] is not None:
        check_name(output["name"])  # before anything is started
    if app_only and folder is None:
        raise InvalidInputError("--app-only needs --folder: where the server's request and its app are written")
    task = None
    if resume is not None:
        request = read_run(resume)
        config, server = configs_of(request.path, request.config)
    else:
        config, server, task = _configs(task_options, settings, clients, {**serving, "aggregation": aggregation})
    own = task if task is not None and task.is_own else None
    if app_only and own is not None:  # every client is somewhere else and has its own rows
        server = server.replace(evaluate_on=own.rows.test or "")
    if app_only or own is None:
        check_config(config, server)
    if app_only:
        path = write_app(write_request(folder, request_config(config, server), resume=resume, **output))
        emit({"app": str(path)}, as_json, [f"start it with: flwr run {path} YOUR-SUPERLINK"])
        return
    before = _nodes_before(folder, config) if resume is not None else None
    if before is None or blocks or vram_gib:
        from zorba_core.runs.load import read_spec

        needed = None if method_facts(config.settings.method).allocates else read_spec(config.model).num_blocks
        capacities = _nodes(config.num_clients, blocks, vram_gib, needed)
        rows = [{"rows": node["rows"]} if "rows" in node else {} for node in before or [{}] * config.num_clients]
        nodes = [{**node, "model": config.model, **own} for node, own in zip(capacities, rows, strict=True)]
    else:
        nodes = before
    if resume is not None:
        check_unfinished(request)
    place = folder or Path(tempfile.mkdtemp(prefix="zorba-federation-"))
    if own is not None:
        division = {"division": task_options.division, "alpha": task_options.alpha, "seed": settings.seed}
        try:
            files = share_out(own, place, config.num_clients, **division)
        except ZorbaError:
            if folder is None:
                shutil.rmtree(place)
            raise
        server = server.replace(evaluate_on=files.evaluate_on)
        check_config(config, server)
        nodes = [{**node, "rows": rows} for node, rows in zip(nodes, files.rows, strict=True)]
    write_json(place / _NODES, nodes)
    start = simulate if simulated else federate_on_loopback
    try:
        run = start(
            place.resolve(),
            request_config(config, server),
            nodes,
            resume=resume,
            tell=lambda line: typer.echo(line, err=True),
            **output,
        )
    except KeyboardInterrupt:
        raise RunError(f"stopped; {_how_to_resume(place)}") from None
    except ZorbaError as error:
        raise type(error)(f"{error}; {_how_to_resume(place)}") from None
    if folder is None:
        shutil.rmtree(place, ignore_errors=True)
    emit({"run": str(run.path), **run.summary}, as_json, _lines(run))


def _configs(
    options: TaskOptions, settings: Settings, clients: int | None, serving: dict[str, Any]
) -> tuple[RunConfig, ServerSettings, Task]:
    """Both configs and the task, before any process is started."""
    from zorba_core.data.divide import named_clients
    from zorba_core.data.task import TableRows
    from zorba_core.federation.config import shared_task
    from zorba_core.runs.models import resolve_model

    options = options.with_model()
    model = options.model
    resolve_model(model)
    if os.path.isdir(model):
        model = str(Path(model).resolve())
    if options.data is None:
        options = options.replace(dataset=options.dataset or _default_dataset())
    task = options.task()
    if clients is None:
        clients = len(named_clients(task, options.division)) or DEFAULT_SEATS
    config = RunConfig(
        dataset=task.name,
        model=model,
        label_words=tuple(options.words or task.label_words),
        num_clients=clients,
        alpha=options.alpha,
        settings=settings,
        division=options.division or DIRICHLET,
        task=shared_task(task) if isinstance(task.rows, TableRows) else "",
    )
    if serving["min_clients"] is None:
        serving = {**serving, "min_clients": clients}
    return config, ServerSettings(**serving), task


def _default_dataset() -> str:
    data = os.environ.get("ZORBA_DATA")
    return "sst2" if data and Path(data, "sst2", "train.parquet").is_file() else "toy-reviews"


def _nodes(clients: int, blocks: str | None, vram_gib: str | None, needed: int | None) -> list[dict[str, Any]]:
    """What each client can hold; ``needed`` blocks each where the method activates all."""
    if blocks is not None and vram_gib is not None:
        raise InvalidInputError("give --blocks or --vram-gib, not both")
    text, key, kind = (vram_gib, "vram-gib", float) if vram_gib is not None else (blocks, "blocks", int)
    try:
        usual = list(_DEFAULT_BLOCKS) if needed is None else [needed]
        values = [kind(part) for part in text.split(",")] if text else usual
    except ValueError:
        raise InvalidInputError(f"--{key} is {text!r}; give one number for each client, separated by commas") from None
    if text and len(values) != clients:
        raise InvalidInputError(f"--{key} names {len(values)} clients and --clients is {clients}")
    if any(not value > 0 for value in values):
        raise InvalidInputError(f"--{key} must be above 0 for every client")
    for seat, value in enumerate(values):
        if key == "vram-gib" and value > MAX_VRAM_GIB:
            raise InvalidInputError(f"--vram-gib is {value:g} for client {seat}; at most {MAX_VRAM_GIB:g} are taken")
    if needed is not None and key == "blocks" and min(values) < needed:
        raise InvalidInputError(f"--blocks has {min(values)}; in this method every client holds all {needed} blocks")
    return [{key: values[seat % len(values)]} for seat in range(clients)]


def _nodes_before(folder: Path | None, config: RunConfig) -> list[dict[str, Any]] | None:
    """What a resumed run's clients can hold and where their rows are, as the folder that it was started in says.

    Raises:
        InvalidInputError: nothing says in which files the clients' own rows are, or it is another federation's folder.
    """
    path = None if folder is None else folder / _NODES
    if path is None or not path.is_file():
        if config.task:
            raise InvalidInputError(
                f"the run's clients read rows of their own; give the folder that it was started in, with its {_NODES}, "
                "as --folder"
            )
        return None
    nodes = read_json(path)
    if len(nodes) != config.num_clients:
        raise InvalidInputError(f"{path}: it describes {len(nodes)} clients, and the run has {config.num_clients}")
    return nodes


def _how_to_resume(place: Path) -> str:
    named = place / "run.json"
    sentence = f"logs and replicas are in {place}"
    if not named.is_file():
        return sentence
    run = read_json(named)["run"]
    return f"{sentence}; resume with: zorba federation up --resume {run} --folder {place}"


def _lines(run: Run) -> list[str]:
    summary, equal = run.summary, [client["equal"] for client in run.summary["replicas"]]
    metric = METRIC_TITLES[run.task.counted]
    return [
        f"federated ZorBA on {run.config['dataset']}, {run.config['model']}, {run.config['num_clients']} clients, "
        f"{summary['rounds_done']} rounds in {summary['seconds']:.0f} s",
        f"  {metric:<11} {summary['initial_accuracy']:.3f} before, {summary['final_accuracy']:.3f} after",
        f"  replicas    {sum(equal)} of {len(equal)} have the server's weights, {summary['weights_sha256'][:16]}",
        f"  run         {run.path}",
    ]
