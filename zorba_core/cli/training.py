"""``zorba train``, ``federate``, ``resume`` and ``task``: federated fine-tuning."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from zorba_core.cli.allocation import parse_budgets
from zorba_core.cli.options import BASE_MODEL, JSON_OPTION, RUN, emit, hide_loading_bars, note, options_of
from zorba_core.cli.training_options import AllocationChoice, FolderOptions, TaskOptions
from zorba_core.data.baselines import of_baselines
from zorba_core.data.divide import NATURAL, division_of, named_clients
from zorba_core.data.load import missing
from zorba_core.data.sources import files_of
from zorba_core.data.task import TASKS, TableRows, Task, table_of
from zorba_core.engine.parts import METHODS, method_facts
from zorba_core.engine.settings import LARGE_ROUNDS, Settings
from zorba_core.errors import InvalidInputError, MissingDataError, RunError
from zorba_core.federation.options import ServerOptions
from zorba_core.files import check_folder, to_json
from zorba_core.lazy import without_collection
from zorba_core.runs import Run
from zorba_core.vram import GIB, ModelSpec

if TYPE_CHECKING:
    from zorba_core.runs.record import Callback


# Options whose defaults depend on the model (Settings.suited) or on the rows.
_SUITED = dict.fromkeys(("lr", "rounds", "schedule", "direction", "directions", "precision", "seq_len", "batch_size"))
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
    **dict.fromkeys(("lr", "schedule", "direction", "directions", "seq_len", "batch_size")),
    "rounds": 20,
    "eval_every": 5,
    "estimator": "cohort",
}
_FEDERATION_CLIENTS = 4  # default number of client processes
_FEDERATION_HELP = {
    "clients": "Number of clients, each a process; default: as many as the rows or budgets have, else 4, and 20 with "
    "--simulate."
}


def train(
    task: TaskOptions = options_of(TaskOptions, panel="Data", elsewhere=_PANELS),
    choice: AllocationChoice = options_of(AllocationChoice, panel="Allocation", elsewhere=_PANELS),
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
    folder: FolderOptions = options_of(FolderOptions, panel="Run", elsewhere=_PANELS),
    as_json: bool = JSON_OPTION,
) -> None:
    """Fine-tune a language model by forward passes across clients that each activate some of its blocks, or by another
    --method of the paper.

    Ctrl-C ends the run after the current round and exits with status 1; zorba resume continues it.
    """
    from zorba_core import fine_tune

    task = task.with_model()
    spec, chosen_task, settings = _suited(task, settings)
    chosen, origin = choice.allocation_for(spec, settings, named_clients(chosen_task, task.division))
    run = supervised(
        lambda callbacks: fine_tune(
            chosen if method_facts(settings.method).allocates else None,
            num_clients=chosen.num_clients,
            dataset=chosen_task,
            model=task.model,
            settings=settings,
            alpha=task.alpha,
            division=task.division,
            callbacks=callbacks,
            origin=origin,
            **dict(folder),
        ),
    )
    emit({"run": str(run.path), **run.summary}, as_json, summary_lines(run))


def _suited(task: TaskOptions, given: dict[str, Any]) -> tuple[ModelSpec, Task, Settings]:
    """The model's sizes, the task, and settings that suit both."""
    with without_collection():
        from zorba_core.runs.load import read_spec, suited_settings

    spec = read_spec(task.model)
    Settings.suited(spec.num_parameters, **given)  # report a wrong value before reading rows
    chosen = task.task()
    if message := missing(chosen):
        raise MissingDataError(message)
    settings = suited_settings(chosen, task.model, given)
    if settings.eval_rows is not None and given.get("eval_rows") is None:
        note(f"  tested  on {settings.eval_rows:,} of the test rows, chosen at random   [default; --eval-rows]")
    return spec, chosen, settings


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
    summary, config, data = run.summary, run.config, run.environment.get("data", {})
    sent = summary["communication"]
    by_client = summary["reports"]["refused_by_client"]
    backward = f" and {summary['backward_passes']} backward passes" if summary["backward_passes"] else " passes"
    origin = f" ({data['note']})" if data.get("note") else ""
    seen = data.get("evaluation_rows_in_train")
    metric = str(data.get("metric", "accuracy")).replace("_", " ")
    rows = [
        (
            f"{metric}, {data.get('evaluation_split', '-')} ({data.get('evaluation_rows', '-')} rows)",
            f"{summary['initial_accuracy']:.3f} before, {summary['final_accuracy']:.3f} after, "
            f"best {summary['best_accuracy']:.3f} in round {summary['best_round']}"
            + (f"; {seen:,} of these rows are training rows too" if seen else ""),
        ),
        (
            "allocation",
            f"Lambda {summary['lambda']:.3f}, V {summary['mean_inverse_popularity']:.3f}, "
            f"effective clients {summary['effective_clients']:.1f}{_drawn(config)}",
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
        f"{METHODS[summary['method']].title} on {config['dataset']}{origin}, {config['model']}, "
        f"{config['num_clients']} clients, "
        f"{summary['total_blocks']} of {config['num_clients'] * config['num_blocks']} blocks, "
        f"{summary['rounds_done']} rounds in {summary['seconds']:.0f} s",
        *(f"  {what:<{width}}{value}" for what, value in rows),
        *compared,
    ]


def _drawn(config: dict[str, Any]) -> str:
    """The budgets of a fleet that nobody gave."""
    origin = config["allocation"]
    if origin.get("fleet") != "uniform":
        return ""
    least, most = min(origin["budgets"]), max(origin["budgets"])
    return f"; budgets drawn: {least} to {most} of {config['num_blocks']} blocks (--budgets or --fleet gives others)"


def _by_clients(summary: dict[str, Any]) -> str:
    """The forward passes that real clients compute instead of a simulation's backward passes."""
    if not summary["client_forward_passes"] or not summary["backward_passes"]:
        return ""
    return f"; real clients: {summary['client_forward_passes']:,} forward passes and no backward pass"


def federate(
    task: TaskOptions = options_of(TaskOptions, panel="Data", elsewhere=_FEDERATION_PANELS),
    choice: AllocationChoice = options_of(
        AllocationChoice, panel="Allocation", elsewhere=_FEDERATION_PANELS, help=_FEDERATION_HELP
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
    folder: FolderOptions = options_of(FolderOptions, panel="Run"),
    simulate: bool = typer.Option(False, "--simulate", help="All clients in this process.", rich_help_panel=_FIRST),
    as_json: bool = JSON_OPTION,
) -> None:
    """Start a SuperLink and a SuperNode for each client on this machine, each with its own rows, fine-tune, and stop
    them all.

    Ctrl-C ends the run after the current round, a second Ctrl-C at once; zorba resume continues it. For several hosts
    see zorba_core/federation/README.md.
    """
    _check_flower()
    check_folder(folder.runs_folder)
    task = task.with_model()
    model = str(Path(task.model).resolve()) if os.path.isdir(task.model) else task.model
    spec, chosen_task, settings = _suited(task, settings)
    named = named_clients(chosen_task, task.division)
    one_for_all = choice.budgets is None or len(parse_budgets(choice.budgets)) == 1
    if not simulate and not named and one_for_all and (choice.clients, choice.fleet, choice.allocation) == (None,) * 3:
        choice = choice.replace(clients=_FEDERATION_CLIENTS)
    allocation, origin = choice.allocation_for(spec, settings, named)
    division = division_of(chosen_task, task.division)
    nodes = _nodes(chosen_task, division, allocation.num_clients, model)
    config = {
        "model": model,
        "prompt": chosen_task.prompt,
        "label-words": to_json(chosen_task.label_words),
        **({"task": to_json(table_of(chosen_task))} if chosen_task.is_own else {"dataset": chosen_task.name}),
        "clients": allocation.num_clients,
        "division": division,
        "alpha": task.alpha,
        "allocation": to_json({**origin, "blocks_per_client": allocation.blocks_per_client}),
        **{f"settings.{name}": "" if value is None else value for name, value in settings.model_dump().items()},
        **{name.replace("_", "-"): value for name, value in dict(options).items()},
        "threads": folder.threads or 1,  # several processes share this machine
        "force": folder.force,
        "runs-folder": str(folder.runs_folder.resolve()),
        "name": folder.name or "",
    }
    _show(_served(config, nodes, simulate), as_json)


def resume_federated(run: Run, as_json: bool) -> None:
    """Resume a federated run whose server ended. Its clients start again and catch up from its log.

    Raises:
        InvalidInputError: ``zorba federate`` did not start its clients.
    """
    _check_flower()
    started = run.config["federation"]
    if "nodes" not in started:
        raise InvalidInputError(
            f"{run.path}: the clients are on other hosts; resume it with: flwr run APP SUPERLINK --run-config "
            f"'resume=\"{run.path.resolve()}\"'"
        )
    config = {"resume": str(run.path.resolve())}
    _show(_served(config, started["nodes"], started["simulated"]), as_json)


def _served(config: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], simulate: bool) -> Run:
    from zorba_core.federation.loopback import federate_on_loopback
    from zorba_core.federation.request import Request, run_config
    from zorba_core.federation.server_app import serve
    from zorba_core.federation.simulate import LocalGrid

    request = Request.of(run_config(**config))  # reports a wrong value before anything starts
    started = {"simulated": simulate, "nodes": nodes}
    options = {"started": started}
    if simulate:
        return supervised(lambda calls: serve(request, LocalGrid(nodes), callbacks=calls, **options))
    return supervised(lambda calls: federate_on_loopback(config, nodes, callbacks=calls, **options))


def _nodes(task: Task, division: str, clients: int, model: str) -> list[dict[str, Any]]:
    """Each client's ``--node-config``: its file of rows, if every client has a file and there are rows to test on; else
    the file of all rows, from which it takes its part."""
    rows: list[dict[str, str]] = [{}] * clients
    if isinstance(task.rows, TableRows):
        rows = [{"data": task.rows.train}] * clients
        train, test = files_of(task.rows), task.rows.test is not None or files_of(task.rows, "test") is not None
        is_file_each = bool(train.clients) and len({*train.clients}) == len(train.files)
        if division == NATURAL and is_file_each and not task.rows.client and test:
            files = [file for _, file in sorted(zip(train.clients, train.files, strict=True))]
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
    if "federation" in unfinished.config:
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
    task_options: dict[str, Any] = options_of(TaskOptions, without=("dataset", "data", "alpha", "division"), make=dict),
    choice: AllocationChoice = options_of(AllocationChoice, "clients"),
    seq_len: int | None = typer.Option(None, help="Longest prompt in tokens; default: as in zorba train."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Show columns, labels, an example prompt with its tokens, lengths against --seq-len, and advice; the accuracy of a
    majority vote, naive Bayes and the untrained model on the test rows; and how long training will take."""
    with without_collection():
        from zorba_core.data.describe import describe_task
        from zorba_core.runs.expect import expect
        from zorba_core.runs.load import read_spec, suited_settings
        from zorba_core.runs.models import load_tokenizer

    plain = data.replace("_", "-")
    named = {"dataset": plain} if plain in TASKS else {"data": data}
    options = TaskOptions(**named, **task_options).with_model()
    chosen = options.task()
    spec = read_spec(options.model)
    suited = suited_settings(chosen, options.model, {"seq_len": seq_len})
    facts = describe_task(chosen, load_tokenizer(options.model), suited.seq_len)
    allocation, _ = choice.allocation_for(spec, suited, named_clients(chosen, None))
    try:
        expected = expect(chosen, options.model, suited, allocation)
    except InvalidInputError as error:
        facts["model"], last = None, f"{options.model} cannot be trained on it: {error}"
    else:
        facts["model"] = {"name": options.model, "rounds": suited.rounds, **asdict(expected)}
        last = expected.sentence(options.model, chosen.counted, suited, allocation.num_clients)
    emit(facts, as_json, [*_task_lines(facts), last])


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
