"""``zorba train``, ``federate``, ``resume`` and ``task``: federated fine-tuning."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from zorba_core.cli.options import BASE_MODEL, JSON_OPTION, RUN, emit, hide_loading_bars, options_of
from zorba_core.data.baselines import of_baselines
from zorba_core.data.divide import NATURAL, named_clients
from zorba_core.data.sources import files_of
from zorba_core.data.task import TASKS, TableRows
from zorba_core.engine.parts import METHODS
from zorba_core.engine.settings import LARGE_ROUNDS, Settings
from zorba_core.errors import InvalidInputError, MissingDataError, RunError
from zorba_core.federation.options import ServerOptions
from zorba_core.installed import install_command
from zorba_core.runs import Run
from zorba_core.runs.request import ResolvedRequest, TrainRequest
from zorba_core.vram import GIB

if TYPE_CHECKING:
    from zorba_core.runs.record import Callback


# Options whose defaults depend on the model (Settings.suited) or on the rows.
_SUITED: dict[str, Any] = dict.fromkeys(
    ("lr", "rounds", "schedule", "calibration", "direction", "directions", "precision", "seq_len", "batch_size")
)
_HELP = {
    "batch_size": "Rows of each client in a round, B; default 8, and 4 for long --data with a large model.",
    "seq_len": "Longest prompt in tokens, L; default 64, and with --data enough for 99 % of the rows, at most 96.",
    "lr": "Learning rate, or auto: every round's expected step has the same length before the schedule; default: auto.",
}
_FIRST = "What most people need"
_PANELS = {
    **dict.fromkeys(("data", "label", "model", "clients", "rounds", "lr"), _FIRST),
    **dict.fromkeys(("seq_len", "lora_rank", "precision"), "Model"),
    **dict.fromkeys(("device", "seed", "eval_every", "eval_rows", "target"), "Run"),
}
_FEDERATION_PANELS = {
    **dict.fromkeys(("data", "test", "model", "clients", "rounds", "lr"), _FIRST),
    **dict.fromkeys(("rule", "trim"), "Federation"),
}
_FEDERATION_DEFAULTS = {
    **dict.fromkeys(("lr", "schedule", "calibration", "direction", "directions", "seq_len", "batch_size")),
    "rounds": 20,
    "eval_every": 5,
    "estimator": "cohort",
}
_FEDERATION_CLIENTS = 4  # default number of client processes
_FEDERATION_HELP = {
    "clients": "Number of clients, each a process; default: as many as the rows or budgets have, else 4, and 20 with "
    "--simulate."
}


def _checked(**given: Any) -> dict[str, Any]:
    """Some fields of a request, if they are valid."""
    TrainRequest(**given)
    return given


_DATA = (
    "data", "dataset", "text", "label", "answer", "prompt", "label_words", "test", "sheet", "client", "division",
    "alpha", "model",
)  # fmt: skip
_ALLOCATION = ("clients", "allocation", "solver", "total", "budgets", "fleet")
_TASK = tuple(name for name in _DATA if name not in ("data", "dataset", "division", "alpha"))
_FOLDER = ("runs_folder", "name", "threads", "force")
_TEXT = ("data", "text", "label_words", "test")


def train(
    rows: dict[str, Any] = options_of(TrainRequest, *_DATA, panel="Data", elsewhere=_PANELS, make=_checked, text=_TEXT),
    allocation: dict[str, Any] = options_of(
        TrainRequest, *_ALLOCATION, panel="Allocation", elsewhere=_PANELS, make=_checked
    ),
    settings: dict[str, Any] = options_of(
        Settings,
        panel="Training",
        elsewhere=_PANELS,
        without=("num_seeds", "rule", "trim", "inactive", "participation"),
        make=dict,
        defaults=_SUITED,
        text=("lr",),
        help={**_HELP, "rounds": f"Rounds, T; default 150, and {LARGE_ROUNDS} for a large model."},
    ),
    folder: dict[str, Any] = options_of(TrainRequest, *_FOLDER, panel="Run", elsewhere=_PANELS, make=_checked),
    as_json: bool = JSON_OPTION,
) -> None:
    """Fine-tune a language model by forward passes across clients that each activate some of its blocks, or by another
    --method of the paper.

    Ctrl-C ends the run after the current round and exits with status 1; zorba resume continues it.
    """
    from zorba_core.runs.train import train as run_request

    request = TrainRequest(**rows, **allocation, settings=settings, **folder)
    run = supervised(lambda callbacks: run_request(request, callbacks=callbacks))
    emit({"run": str(run.path), **run.summary}, as_json, summary_lines(run))


def supervised(work: Callable[[Sequence[Callback]], Run]) -> Run:
    """Do ``work``. Ctrl-C ends it after the current round."""
    from zorba_core.runs.terminal import Interrupt

    hide_loading_bars()
    interrupt = Interrupt()
    try:
        with interrupt.listening():
            return work([interrupt])
    except KeyboardInterrupt:
        folder = interrupt.folder
        state = "nothing was written" if folder is None else f"resume with: zorba resume {folder}"
        raise RunError(f"stopped at once; {state}") from None


def summary_lines(run: Run) -> list[str]:
    """A run's result as text: a title, a line for each fact, and for the user's rows a comparison with classifiers."""
    summary, request, data = run.summary, run.request, run.environment.get("data", {})
    sent = summary["communication"]
    by_client = summary["reports"]["refused_by_client"]
    backward = f" and {summary['backward_passes']} backward passes" if summary["backward_passes"] else " passes"
    origin = f" ({data['note']})" if data.get("note") else ""
    seen = data.get("evaluation_rows_in_train")
    metric = str(data.get("metric", "accuracy")).replace("_", " ")
    final = summary.get("final_round", summary["rounds_done"])
    rows = [
        (
            f"{metric}, {data.get('evaluation_split', '-')} ({data.get('evaluation_rows', '-')} rows)",
            f"{summary['initial_accuracy']:.3f} before, {summary['final_accuracy']:.3f} after, "
            f"best {summary['best_accuracy']:.3f} in round {summary['best_round']}"
            + ("" if final == summary["rounds_done"] else f"; taken from round {final}, which was better than the last")
            + (f"; {seen:,} of these rows are training rows too" if seen else ""),
        ),
        (
            "allocation",
            f"Lambda {summary['lambda']:.3f}, V {summary['mean_inverse_popularity']:.3f}, "
            f"effective clients {summary['effective_clients']:.1f}{_drawn(request)}",
        ),
        ("VRAM by the paper's model", f"{summary['vram_gib']['total']:.3f} GiB over all clients"),
        (
            "memory of the largest client",
            f"{summary['memory']['psi_bytes'] / GIB:.3f} GiB by the paper's model",
        ),
        ("computed", f"{summary['forward_passes']} forward{backward} of one client's batch{_by_clients(summary)}"),
        (
            "sent, numbers needed",
            f"{sent['up']['needed']:,} up, {sent['down']['needed']:,} down ({sent['form']}); "
            f"{(sent['up']['wire_bytes'] + sent['down']['wire_bytes']) / 1e6:,.3f} MB",
        ),
        ("run", str(run.path)),
    ]
    if summary["target"] is not None:
        reached = summary["rounds_to_target"]
        what = "not reached" if reached is None else f"reached in round {reached}"
        rows.insert(1, (f"target {summary['target']:.2f}", what))
    if by_client:
        rows.insert(3, ("refused for a round", f"{sum(by_client.values())} reports of {len(by_client)} clients"))
    width = max(33, *(len(what) + 1 for what, _ in rows))
    scores, after = data.get("baselines"), summary["final_accuracy"]
    compared = [f"accuracy {after:.3f} on the same rows after training; {of_baselines(scores)}"] if scores else []
    return [
        f"{METHODS[summary['method']].title} on {request.task.name}{origin}, {request.model}, "
        f"{request.num_clients} clients, "
        f"{summary['total_blocks']} of {request.allocation.A_MN.size} blocks, "
        f"{summary['rounds_done']} rounds in {summary['seconds']:.0f} s",
        *(f"  {what:<{width}}{value}" for what, value in rows),
        *compared,
    ]


def _drawn(request: ResolvedRequest) -> str:
    """The budgets of a fleet that nobody gave."""
    if request.made.get("fleet") != "uniform":
        return ""
    least, most = min(request.made["budgets"]), max(request.made["budgets"])
    blocks = request.allocation.num_blocks
    return f"; budgets drawn: {least} to {most} of {blocks} blocks (--budgets or --fleet gives others)"


def _by_clients(summary: dict[str, Any]) -> str:
    """The forward passes that real clients compute instead of a simulation's backward passes."""
    if not summary["client_forward_passes"] or not summary["backward_passes"]:
        return ""
    return f"; real clients: {summary['client_forward_passes']:,} forward passes and no backward pass"


def federate(
    rows: dict[str, Any] = options_of(
        TrainRequest, *_DATA, panel="Data", elsewhere=_FEDERATION_PANELS, make=_checked, text=_TEXT
    ),
    allocation: dict[str, Any] = options_of(
        TrainRequest,
        *_ALLOCATION,
        panel="Allocation",
        elsewhere=_FEDERATION_PANELS,
        make=_checked,
        help=_FEDERATION_HELP,
    ),
    settings: dict[str, Any] = options_of(
        Settings,
        panel="Training",
        elsewhere=_FEDERATION_PANELS,
        without=("num_seeds", "inactive", "device", "precision", "target"),
        make=dict,
        defaults=_FEDERATION_DEFAULTS,
        text=("lr",),
        help=_HELP,
    ),
    options: ServerOptions = options_of(ServerOptions, panel="Federation"),
    folder: dict[str, Any] = options_of(TrainRequest, *_FOLDER, panel="Run", make=_checked),
    simulate: bool = typer.Option(False, "--simulate", help="All clients in this process.", rich_help_panel=_FIRST),
    as_json: bool = JSON_OPTION,
) -> None:
    """Start a SuperLink and a SuperNode for each client on this machine, each with its own rows, fine-tune, and stop
    them all.

    Ctrl-C ends the run after the current round, a second Ctrl-C at once; zorba resume continues it. For several hosts
    see zorba_core/federation/README.md.
    """
    _check_flower()
    from zorba_core.federation.request import config_of

    asked = TrainRequest(**rows, **allocation, settings=settings, **folder)
    request = asked.replace(
        model=asked.resolved_model(),
        runs_folder=asked.runs_folder.resolve(),
        threads=asked.threads or 1,  # several processes share this machine
    ).resolve(default_clients=None if simulate else _FEDERATION_CLIENTS)
    nodes = _nodes(request)
    _show(_served(config_of(request, options), nodes, simulate), as_json)


def resume_federated(run: Run, as_json: bool) -> None:
    """Resume a federated run whose server ended. Its clients start again and catch up from its log.

    Raises:
        InvalidInputError: ``zorba federate`` did not start its clients.
    """
    _check_flower()
    started = run.request.federation or {}
    if "nodes" not in started:
        raise InvalidInputError(
            f"{run.path}: the clients are on other hosts; resume it with: flwr run APP SUPERLINK --run-config "
            f"'resume=\"{run.path.resolve()}\"'"
        )
    config = {"resume": str(run.path.resolve())}
    _show(_served(config, started["nodes"], started["simulated"]), as_json)


def _served(config: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], simulate: bool) -> Run:
    from zorba_core.federation.loopback import federate_on_loopback
    from zorba_core.federation.request import ServerRequest, run_config
    from zorba_core.federation.server_app import serve
    from zorba_core.federation.simulate import LocalGrid

    request = ServerRequest.of(run_config(**config))  # reports a wrong value before anything starts
    started = {"simulated": simulate, "nodes": nodes}
    options: dict[str, Any] = {"started": started}
    if simulate:
        return supervised(lambda calls: serve(request, LocalGrid(nodes), callbacks=calls, **options))
    return supervised(lambda calls: federate_on_loopback(config, nodes, callbacks=calls, **options))


def _nodes(request: ResolvedRequest) -> list[dict[str, Any]]:
    """Each client's ``--node-config``: its file of rows, if every client has a file and there are rows to test on; else
    the file of all rows, from which it takes its part."""
    task, clients = request.task, request.num_clients
    rows: list[dict[str, Any]] = [{}] * clients
    if isinstance(task.rows, TableRows):
        rows = [{"data": task.rows.train}] * clients
        train, test = files_of(task.rows), task.rows.test is not None or files_of(task.rows, "test") is not None
        is_natural = request.division == NATURAL and not task.rows.client
        if train is not None and len({*train.clients}) == len(train.files) and is_natural and test:
            files = [file for _, file in sorted(zip(train.clients, train.files, strict=True))]
            if len(files) != clients:
                raise InvalidInputError(f"there are {len(files)} files and {clients} clients; make them agree")
            rows = [{"rows": file} for file in files]
    return [{"partition-id": n, "num-partitions": clients, "model": request.model, **own} for n, own in enumerate(rows)]


def _check_flower() -> None:
    if importlib.util.find_spec("flwr") is None:
        raise MissingDataError(
            f"zorba federate needs Flower 1.41, which is not installed here: {install_command('flower')}"
        )


def _show(run: Run, as_json: bool) -> None:
    summary, equal = run.summary, [client["equal"] for client in run.summary["replicas"]]
    replicas = f"  {sum(equal)} of {len(equal)} replicas have the server's weights, {summary['weights_sha256'][:16]}"
    emit({"run": str(run.path), **summary}, as_json, [*summary_lines(run), replicas])


def resume(
    run: str = RUN,
    model: str | None = BASE_MODEL,
    data: str | None = typer.Option(None, help="File of your own rows now; default: as in the run's config."),
    test: str | None = typer.Option(None, help="File of your own test rows now; default: as in the run's config."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Resume RUN after a kill or an interrupt. It ends with the bits of an uninterrupted run.

    The clients of a federated run start again and catch up from its log.
    """
    from zorba_core.runs import read_run

    unfinished = read_run(run)
    if unfinished.request.federation is not None:
        if (model, data, test) != (None, None, None):
            raise InvalidInputError("leave out --model, --data and --test: each client of a federated run has its own")
        return resume_federated(unfinished, as_json)
    done = supervised(
        lambda callbacks: unfinished.resume(
            model=model,
            data=data,
            test=test,
            callbacks=callbacks,
        ),
    )
    emit({"run": str(done.path), **done.summary}, as_json, summary_lines(done))


def task(
    data: str = typer.Argument(..., help="Rows, a task's TOML file, or the name of a built-in task."),
    rows: dict[str, Any] = options_of(TrainRequest, *_TASK, make=_checked, text=_TEXT),
    clients: dict[str, Any] = options_of(TrainRequest, "clients", make=_checked),
    seq_len: int | None = typer.Option(None, help="Longest prompt in tokens; default: as in zorba train."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Show columns, labels, an example prompt with its tokens, lengths against --seq-len, and advice; the accuracy of a
    majority vote, naive Bayes and the untrained model on the test rows; and how long training will take."""
    from zorba_core.data.describe import describe_task
    from zorba_core.runs.expect import expect
    from zorba_core.runs.load import read_spec, suited_settings
    from zorba_core.runs.models import load_tokenizer

    plain = data.replace("_", "-")
    named = {"dataset": plain} if plain in TASKS else {"data": data}
    request = TrainRequest(**named, **rows, **clients)
    model = request.resolved_model()
    chosen = request.resolved_task(model)
    suited = suited_settings(chosen, model, {"seq_len": seq_len})
    facts = describe_task(chosen, load_tokenizer(model), suited.seq_len)
    allocation, _ = request.resolved_allocation(read_spec(model), suited, named_clients(chosen, None))
    try:
        expected = expect(chosen, model, suited, allocation)
    except InvalidInputError as error:
        facts["model"], table, last = None, [], f"{model} cannot be trained on it: {error}"
    else:
        facts["model"] = {"name": model, "rounds": suited.rounds, **asdict(expected)}
        last = expected.sentence(model, chosen.counted, suited, allocation.num_clients)
        table = expected.prompt.lines() if expected.prompt else []
    emit(facts, as_json, [*_task_lines(facts), *table, last])


def _task_lines(facts: dict[str, Any]) -> list[str]:
    lengths, example, columns = facts["lengths"], facts["example"], facts["columns"]
    lines = [
        f"task {facts['task']}: {', '.join(f'{count:,} rows ({split})' for split, count in facts['rows'].items())}",
        "columns: " + "; ".join(f"{what} {_joined(names)}" for what, names in columns.items() if names),
        f"prompt: {facts['prompt']!r}",
        f"{example['place']}, {len(example['tokens'])} tokens",
        f"  {example['prompt']!r} -> {example['answer']!r}",
        f"  {' '.join(example['tokens'])}",
    ]
    if facts["labels"]:
        lines.append(f"{'label':<28}{'word':<24}{'tokens':>6}{'train':>9}{'test':>8}")
    lines += [
        f"{label['name'][:27]:<28}{label['word'][:23]:<24}{len(label['tokens']) or '-':>6}{label['train']:>9}"
        f"{label['test']:>8}"
        for label in facts["labels"]
    ]
    lines.append(
        f"tokens of a prompt: median {lengths['median']}, 9 of 10 at most {lengths['p90']}, 99 of 100 at most "
        f"{lengths['p99']}, longest {lengths['longest']}; the prompt's own words {lengths['prompt_itself']}"
    )
    answers = f", {lengths['answers_cut']} answers" if lengths.get("answers_cut") else ""
    lines.append(
        f"seq_len {lengths['seq_len']}: {lengths['prompts_cut']} of {lengths['measured_rows']} rows are cut{answers}"
    )
    if facts["clients"]:
        lines.append("clients: " + ", ".join(f"{name} {count}" for name, count in [*facts["clients"].items()][:20]))
    if scores := facts["baselines"]:
        lines.append(f"accuracy on {facts['baseline_rows']:,} test rows {of_baselines(scores)}")
    return lines + ([f"advice: {sentence}" for sentence in facts["advice"]] or ["advice: none, all is well"])


def _joined(names: str | list[str]) -> str:
    return names if isinstance(names, str) else ", ".join(names)
