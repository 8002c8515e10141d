"""Options follow from declared fields: none lost, none renamed, and their defaults those of the dataclasses."""

from __future__ import annotations

import click
import pytest
import typer
from typer.testing import CliRunner

from zorba_core.allocation import SOLVERS
from zorba_core.cli import build_app
from zorba_core.cli.allocation import FleetOptions, Limits, SolveOptions
from zorba_core.data.task import TASKS
from zorba_core.engine.parts import DIRECTIONS, ESTIMATORS, METHODS
from zorba_core.engine.settings import Settings
from zorba_core.federation.options import ServerOptions
from zorba_core.runs.request import TrainRequest
from zorba_core.vram import Workload


def commands(group: click.Command, name: str = "") -> dict[str, click.Command]:
    if not hasattr(group, "commands"):
        return {name: group}
    return {
        path: command
        for word, part in group.commands.items()
        for path, command in commands(part, f"{name} {word}".strip()).items()
    }


@pytest.fixture(scope="module")
def all_commands() -> dict[str, click.Command]:
    return commands(typer.main.get_command(build_app()))


OPTIONS_OF = {
    "train": (Settings, TrainRequest),
    "allocate": (FleetOptions, Workload, Limits, SolveOptions),
    "scenario": (FleetOptions, Workload, Limits),
    "pareto": (FleetOptions, Workload, SolveOptions),
    "vram": (Workload,),
    "federate": (Settings, TrainRequest, ServerOptions),
}
# Where a command begins elsewhere than the dataclass does.
OWN_DEFAULTS = {
    "train": dict.fromkeys(
        ("lr", "rounds", "schedule", "calibration", "direction", "directions", "precision", "seq_len", "batch_size")
    ),
    "pareto": {"model": "opt-125m"},
    "federate": {
        **dict.fromkeys(("lr", "schedule", "calibration", "direction", "directions", "seq_len", "batch_size")),
        "rounds": 20, "eval_every": 5, "estimator": "cohort",
    },
}  # fmt: skip
UNOFFERED = {
    "train": {"settings", "num_seeds", "rule", "trim", "inactive", "participation"},
    "allocate": set(),
    "scenario": {"total_mode"},
    "pareto": {"budgets", "blocks", "time_limit"},
    "vram": set(),
    "federate": {"settings", "num_seeds", "inactive", "target", "precision", "device"},
}  # fmt: skip
CASES = [(name, cls) for name, classes in OPTIONS_OF.items() for cls in classes]


def test_each_option_is_its_field_by_name_default_and_help(all_commands):
    for name, cls in CASES:
        command = all_commands[name]
        command.get_help(click.Context(command))  # fills in the choices
        options = {option.opts[0]: option for option in command.params}
        for field_name, field in cls.model_fields.items():
            flag = f"--{field_name.replace('_', '-')}"
            if field_name in UNOFFERED[name]:
                assert flag not in options
                continue
            option = options[flag]
            assert option.default == OWN_DEFAULTS.get(name, {}).get(field_name, field.default), field_name
            assert option.help
            assert "{choices}" not in option.help


def test_every_command_answers_in_json(all_commands):
    assert len(all_commands) == 16
    for name, command in all_commands.items():
        if name == "app":  # it opens a page and answers nothing
            continue
        assert any("--json" in option.opts for option in command.params), name


def test_train_has_at_most_42_options_in_panels_and_the_six_most_needed_come_first(all_commands):
    options, panels = all_commands["train"].params, {}
    assert len(options) <= 42
    for option in options:
        panels.setdefault(option.rich_help_panel, []).append(option.name)
    assert list(panels) == ["What most people need", "Data", "Allocation", "Training", "Model", "Run", None]
    assert panels["What most people need"] == ["data", "label", "model", "clients", "rounds", "lr"]
    assert panels[None] == ["as_json"]


def test_help_shows_the_names_that_registries_hold(all_commands):
    command = all_commands["train"]
    command.get_help(click.Context(command))
    options = {option.name: option.help for option in command.params}
    registries = {"direction": DIRECTIONS, "estimator": ESTIMATORS, "method": METHODS, "solver": SOLVERS}
    for option, registry in registries.items():
        for part in registry.values():
            assert f"{part.name}: {part.help}" in options[option]
    assert options["mu"] == "Length of a finite difference, in units of the direction."
    for name in TASKS:
        assert name in options["dataset"]


def test_a_group_of_options_is_made_into_its_object_and_a_wrong_one_is_refused_by_the_field():
    refused = CliRunner().invoke(build_app(), ["vram", "--batch-size", "0", "--total-blocks", "300"])
    assert str(refused.exception) == "--batch-size is 0; it must be at least 1"
    told = CliRunner().invoke(build_app(), ["vram", "--seq-len", "64", "--total-blocks", "300"])
    assert "B=8, L=64, float32" in told.stdout


def test_an_option_that_is_missing_is_named_as_it_is_written(monkeypatch, capsys):
    from zorba_core.cli import main

    monkeypatch.setattr("sys.argv", ["zorba", "export", "some-run"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err.startswith("zorba: Missing option '--to'; ")
