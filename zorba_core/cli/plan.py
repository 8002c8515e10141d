"""``zorba plan``: which clients can take part in fine-tuning a model, in which mode, and how long a round takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import typer

from zorba_core.allocation import (
    SOLVERS,
    Allocation,
    AllocationMetrics,
    AllocationProblem,
    allocation_from_file,
    solve,
)
from zorba_core.checksums import write_sealed
from zorba_core.cli.options import options_of
from zorba_core.cli.output import JSON_OPTION, emit
from zorba_core.data.fleet_tables import read_fleet_csv
from zorba_core.data.tasks import TASKS
from zorba_core.engine.direction_kinds import DIRECTIONS
from zorba_core.engine.estimators.registry import ESTIMATORS
from zorba_core.engine.settings import TrainSettings
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.fields import check, setting
from zorba_core.files import check_target
from zorba_core.planning.answers import LABEL_WORDS, AnswerShape
from zorba_core.planning.engine_memory import Load
from zorba_core.planning.memory import GIB, Workload, affordable_blocks
from zorba_core.planning.methods import method_facts
from zorba_core.planning.models import PRESETS, model_spec
from zorba_core.planning.shapes import ModelShape, model_config, model_shape
from zorba_core.runs.fleet_plan import (
    ASSUMED,
    MEASURED,
    ClientPlan,
    alike,
    bottleneck,
    plan_modes,
    simulated,
    with_seconds,
)
from zorba_core.runs.rates import Calibration, model_key, read_calibration

_MOST_ROWS = 60
_MODELS = f"opt-mini, {', '.join(PRESETS)}, or a Hugging Face folder or config.json."


@dataclass(frozen=True)
class PlanOptions:
    """Whose fleet, which model, and who activates what."""

    fleet: Path | None = setting(None, "CSV with columns client,vram_gib and, if known, relative_speed.")
    model: str = setting("opt-mini", _MODELS)
    budgets_by: str = setting(
        "paper",
        "Blocks that a client may activate: paper (psi, at least 1) or engine (all: passes keep nothing of a block).",
        choices=lambda: ("paper", "engine"),
    )
    solver: str = setting("balanced", "{choices}.", choices=SOLVERS.meanings)
    total: int | None = setting(None, "Most activated blocks over all clients.", at_least=1)
    allocation: Path | None = setting(None, "NPZ, JSON or CSV of who activates which blocks, instead of a solver.")
    dataset: str | None = setting(None, "{choices}: answers of several tokens need more.", choices=lambda: TASKS)
    data: str | None = setting(None, "Your own rows or task file instead, as for zorba train.")
    calibration: Path | None = setting(None, "Rates of this machine: read from this file, or measured and kept there.")

    def __post_init__(self) -> None:
        check(self)


def plan(
    options: PlanOptions = options_of(PlanOptions),
    settings: TrainSettings = options_of(
        TrainSettings,
        "method",
        "num_perturbations",
        "batch_size",
        "seq_len",
        "direction",
        "rank",
        "estimator",
        "dtype",
        "threads",
        "train",
        "lora_rank",
        "lora_alpha",
        "lora_targets",
    ),
    as_json: bool = JSON_OPTION,
) -> None:
    """Which clients hold a model in memory, which can stream it, which cannot, and the seconds of a round.

    Memory is derived from the engine's own order of work, not from the paper's psi. Seconds follow from rates that are
    measured here in a few seconds, on the CPU.
    """
    if options.fleet is None:
        raise InvalidInputError("--fleet is missing; give a CSV with columns client,vram_gib")
    fleet = read_fleet_csv(options.fleet)
    source = _source(options.model)
    spec, shape = model_spec(source), model_shape(source, settings.lora)
    workload = Workload(settings.batch_size, settings.seq_len, settings.dtype)
    # Clients have no backward pass: exact scalars are a way to simulate them, and cost the simulation alone.
    exact = ESTIMATORS[settings.estimator].backward
    load = Load(
        settings.batch_size,
        settings.seq_len,
        settings.num_perturbations,
        settings.dtype,
        estimator="cohort" if exact else settings.estimator,
        first_order=method_facts(settings.method).first_order,
        answers=_answers(options, settings),
        rank=settings.rank if DIRECTIONS[settings.direction].low_rank else None,
        signs=DIRECTIONS[settings.direction].signs,
    )
    budget_N = affordable_blocks(fleet.capacity_N_bytes, spec, workload).clip(min=0)
    plans = plan_modes(fleet, shape, load, budget_N, settings.method)
    allocation = _allocation(options, settings, plans, shape)
    simulation = replace(load, estimator=settings.estimator, num_clients=max(1, sum(each.fits for each in plans)))
    facts = method_facts(settings.method)
    # What scales its directions number by number draws them at a speed of its own.
    direction = settings.direction if facts.along != "scaled" else f"{settings.direction} of {facts.name}"
    calibration = _calibration(options, settings, shape, [load, simulation], direction)
    result: dict[str, Any] = {"model": spec.name, "num_blocks": shape.num_blocks, "method": settings.method}
    together = None
    if allocation is not None:
        A_MN = allocation.A_MN
        plans = with_seconds(plans, shape, load, calibration, direction=direction, A_MN=A_MN, method=facts.name)
        memory, seconds = simulated(shape, simulation, calibration, direction=direction, A_MN=A_MN, method=facts.name)
        together = {"peak_gib": memory.peak / GIB, "seconds_per_round": seconds.total}
    slowest = bottleneck(plans)
    result |= {
        "clients": [client.describe() for client in plans],
        "seconds_per_round": None if slowest is None else slowest.seconds_per_round,
        "bottleneck": None if slowest is None else slowest.client,
        "bottleneck_part": None if slowest is None else slowest.seconds.slowest_part,
        "simulation": together,
        "seconds_by": "own block" if model_key(shape, load, direction) in calibration.models else "general rates",
        "process_gib": calibration.process_bytes / GIB,
        "measured": MEASURED,
        "assumed": ASSUMED,
        "calibration": calibration.describe(),
    }
    emit(result, as_json, _lines(plans, shape, load, result))


def _answers(options: PlanOptions, settings: TrainSettings) -> AnswerShape:
    """Of the task that is planned for; label words of one token where none is named."""
    if options.dataset is None and options.data is None:
        return LABEL_WORDS
    from zorba_core.cli.train import TaskOptions
    from zorba_core.runs.model_source import load_tokenizer
    from zorba_core.runs.needs import answers_of

    named = {"dataset": options.dataset} if options.dataset is not None else {}
    task = TaskOptions(model=options.model, data=options.data, **named).task()
    try:
        tokenizer = load_tokenizer(options.model)
    except (InvalidInputError, MissingDataError) as error:
        raise type(error)(
            f"--dataset and --data need the tokenizer of {options.model}, and planning without them does not: {error}"
        ) from None
    return answers_of(task, tokenizer, settings.seq_len)


def _source(model: str) -> str:
    """A preset's name, or the folder of a bundled model."""
    from zorba_core.runs.model_source import is_bundled, resolve_model

    return resolve_model(model) if is_bundled(model) else model


def _allocation(
    options: PlanOptions, settings: TrainSettings, plans: Sequence[ClientPlan], shape: ModelShape
) -> AllocationMetrics | None:
    """Who activates what among the clients that fit; None where none does.

    Raises:
        InvalidInputError: options that contradict each other or the method; a matrix of another size.
    """
    able = [client for client in plans if client.fits]
    if options.allocation is not None:
        read = allocation_from_file(options.allocation)
        if (read.num_blocks, read.num_clients) != (shape.num_blocks, len(plans)):
            raise InvalidInputError(
                f"{options.allocation} is for {read.num_blocks} blocks and {read.num_clients} clients; the model has "
                f"{shape.num_blocks} and the fleet {len(plans)}"
            )
        if options.total is not None:
            raise InvalidInputError("give --allocation or --total, not both: the file says who activates what")
        chosen = Allocation(read.A_MN[:, [client.fits for client in plans]]) if able else None
        return chosen
    if not able:
        return None
    if not method_facts(settings.method).allocates:
        return Allocation(np.ones((shape.num_blocks, len(able)), dtype=bool))
    if options.budgets_by == "engine":
        budget_N = np.full(len(able), shape.num_blocks)
    else:
        budget_N = np.array([max(1, client.budget_paper) for client in able])
    if budget_N.sum() < shape.num_blocks:  # too few for a block each: the smallest fleet that works activates all
        budget_N = np.full(len(able), shape.num_blocks)
    problem = AllocationProblem(budget_N, shape.num_blocks, options.total)
    return solve(problem, options.solver, seed=settings.seed).allocation


def _calibration(
    options: PlanOptions, settings: TrainSettings, shape: ModelShape, loads: Sequence[Load], direction: str
) -> Calibration:
    """Read from the file if it is there; else measured, the model's own block too, and kept in it."""
    path = options.calibration
    if path is not None and path.is_file():
        return read_calibration(path)
    if path is not None:
        check_target(path)
    from zorba_core.runs.calibration import calibrate, with_own_block

    typer.echo("measuring this machine, a few seconds ...", err=True)
    config = model_config(_source(options.model))
    measured = calibrate(threads=settings.threads)
    for load in loads:
        measured = with_own_block(measured, config, shape, load, settings, direction)
    if path is not None:
        write_sealed(path, measured.describe())
    return measured


def _lines(plans: Sequence[ClientPlan], shape: ModelShape, load: Load, result: dict[str, Any]) -> Iterator[str]:
    counts = {mode: sum(client.mode == mode for client in plans) for mode in ("in-memory", "streamed", "cannot")}
    yield (
        f"{shape.name}: {shape.num_blocks} blocks, {shape.parameters:,} parameters; B={load.batch_size}, "
        f"L={load.seq_len}, Q={load.num_perturbations}, {load.dtype}"
    )
    if shape.adapter_parameters:
        yield f"trained: adapters of {shape.adapter_parameters:,} numbers a block"
    if load.answers != LABEL_WORDS:
        yield (
            f"answers: {load.answers.rows} row{'s' if load.answers.rows > 1 else ''} an example, "
            f"{load.answers.positions} positions read, with logits of the whole vocabulary"
        )
    yield (
        f"{len(plans)} clients: {counts['in-memory']} hold it in memory, {counts['streamed']} stream it, "
        f"{counts['cannot']} cannot take part"
    )
    if result["bottleneck"] is None:
        yield "nobody can take part, so there is no round"
    else:
        whom = f"clients take as long as {result['bottleneck']}" if alike(plans) else f"wait for {result['bottleneck']}"
        yield (
            f"a round takes {result['seconds_per_round']:.3g} s; all {whom}, which spends most of it on "
            f"{result['bottleneck_part']}"
        )
        together = result["simulation"]
        yield (
            f"simulated in one process here: {together['seconds_per_round']:.3g} s a round, "
            f"{together['peak_gib']:.3g} GiB"
        )
    yield ""
    yield "client                VRAM GiB  mode       blocks kept  peak GiB  activates  by the paper   s a round"
    for client in plans[:_MOST_ROWS]:
        seconds = "" if client.seconds_per_round is None else f"{client.seconds_per_round:.3g}"
        yield (
            f"{client.client:<20} {client.vram_gib:9.3f}  {client.mode:<10} {client.resident_blocks:11d} "
            f"{client.peak.peak / GIB:9.3f} {client.active_blocks:10d} {client.budget_paper:13d} {seconds:>11}"
        )
        if client.would_fit:
            yield f"{'':<22}would fit with {client.would_fit}"
    if len(plans) > _MOST_ROWS:
        yield f"... and {len(plans) - _MOST_ROWS} more clients (--json for all)"
    machine = result["calibration"]["machine"]
    yield ""
    if result["seconds_by"] == "general rates":
        yield (
            "Seconds by general rates, of OPT's blocks: small heads, other activations and odd lengths take longer. "
            "Without a --calibration of another model, this one's block is measured where it is small enough."
        )
    yield f"Measured on {machine.get('platform', 'this machine')}, {machine.get('clock', '')}: {'; '.join(MEASURED)}."
    yield f"Assumed: {'; '.join(ASSUMED)}."
