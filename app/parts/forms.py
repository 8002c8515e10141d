"""Widgets for the run's settings and for the user's own rows."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from app.parts import runs, ui
from zorba_core.allocation import Allocation
from zorba_core.checked import choices_of, help_of, kind_of
from zorba_core.data.infer import joined, listed, task_for
from zorba_core.data.labels import label_text
from zorba_core.data.load import missing
from zorba_core.data.own_rows import read_rows
from zorba_core.data.task import FIELD, TASKS, Overrides, TableRows, Task
from zorba_core.engine.settings import LARGE, Settings, is_large
from zorba_core.errors import InvalidInputError, ZorbaError
from zorba_core.files import write_bytes, write_text
from zorba_core.runs.models import bundled_models, default_model, models_folder
from zorba_core.runs.request import TrainRequest

OWN = "Rows of my own"
ROUNDS = 60
_UPLOADS = ".uploads"  # in the runs folder; a hidden entry is no run
_LABELS = {
    "lr": "Learning rate", "mu": "Step μ", "directions": "Directions Q", "batch_size": "Batch B",
    "seq_len": "Length L", "lora_rank": "LoRA rank", "eval_every": "Evaluate every", "eval_rows": "Evaluation rows",
    "target": "Target accuracy",
}  # fmt: skip
# Settings that `zorba train` chooses if they are empty, with the placeholder of an empty field.
_SUITED = (
    {"lr": "auto"}
    | dict.fromkeys(("schedule", "direction", "directions", "estimator", "precision"), "suits the model")
    | {"seq_len": "suits the rows", "batch_size": "8, or 4 for long rows"}
)
_KINDS = ["csv", "tsv", "json", "jsonl", "parquet", "xlsx"]


def _label(name: str) -> str:
    return _LABELS.get(name, name.replace("_", " ").capitalize())


def setting(name: str, place: Any = st, empty: str = "") -> Any:
    """A widget for a field of the settings, kept for the session. :func:`checked` checks the bounds, since the widget
    would silently keep its former value.

    Args:
        empty: placeholder of an empty field; without it the field starts with its default.
    """
    field = Settings.model_fields[name]
    kind, _ = kind_of(field)
    label, help = _label(name), help_of(field)
    empty = empty or _SUITED.get(name, "")
    default = None if empty else field.default
    common = {"key": f"set_{name}", "help": help, "persist_state": "session"}
    empty = empty or "default"
    if choices := list(choices_of(field)):
        index = choices.index(default) if default in choices else None
        return place.selectbox(label, choices, index=index, placeholder=empty, **common)
    if kind is bool:
        return place.toggle(label, value=default, **common)
    if kind in (int, float):
        step = 1 if kind is int else None
        return place.number_input(
            label, value=default, step=step, format="%d" if kind is int else "%g", placeholder=empty, **common
        )
    return place.text_input(label, value=default or "", placeholder=empty, **common)


def checked(values: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The settings that differ from their defaults, and why they are invalid; empty if they are valid."""
    given = {
        name: value
        for name, value in values.items()
        if value is not None
        and value != ""
        and (name == "rounds" or name in _SUITED or value != Settings.model_fields[name].default)
    }
    try:
        Settings(**given)
    except (ZorbaError, ValueError) as error:
        return given, re.sub(r"^[a-z_]+", lambda name: _label(name[0]), str(error))
    return given, ""


def advanced_names() -> list[str]:
    """Settings in the expander."""
    return [
        name for name in Settings.model_fields if name not in ("rounds", "lr", "num_seeds", "inactive", "participation")
    ]


def model_names() -> list[str]:
    """Models of this machine, the bundled first."""
    bundled = bundled_models()
    folders = [file.parent for file in sorted(models_folder().glob("*/config.json"))]
    return [*bundled, *(str(folder) for folder in folders if folder.name not in bundled)]


@st.cache_data(max_entries=32, show_spinner="Reading the model's sizes …")
def blocks_of(model: str) -> int:
    """Number of blocks of a model by name, folder or hub id.

    Raises:
        ZorbaError: there is no such model.
    """
    config = Path(bundled_models().get(model, model), "config.json").expanduser()
    try:  # the first config read through transformers takes seconds
        return int(json.loads(config.read_text(encoding="utf-8"))["num_hidden_layers"])
    except (OSError, ValueError, KeyError, TypeError):
        from zorba_core.runs.load import read_spec

        return read_spec(model).num_blocks


@st.cache_data(max_entries=32, show_spinner="Reading the model's sizes …")
def is_large_model(model: str) -> bool:
    """Whether the model trains with the settings of a large model.

    Raises:
        ZorbaError: there is no such model.
    """
    folder = Path(bundled_models().get(model, model)).expanduser()
    if files := [*folder.glob("*.safetensors")]:  # at least two bytes a parameter; reading the config takes seconds
        return sum(file.stat().st_size for file in files) >= 2 * LARGE
    from zorba_core.runs.load import read_spec

    return is_large(read_spec(model).num_parameters)


@st.cache_resource(max_entries=3, show_spinner="Reading the model's tokenizer …")
def _tokenizer(model: str) -> Any:
    from zorba_core.runs.models import load_tokenizer

    return load_tokenizer(model)


def suit_model() -> None:
    """Callback of the rows: for the user's own rows choose a real model, if there is one."""
    if st.session_state.get("train_rows") == OWN:
        st.session_state["train_model"] = default_model(own_rows=True)


def datasets() -> dict[str, str]:
    """Title of each available dataset, by name."""
    tasks = sorted(TASKS.values(), key=lambda task: task.name != "toy-reviews")
    return {task.name: f"{task.title}: {task.about}" for task in tasks if not missing(task)}


def own_rows(model: str) -> tuple[dict[str, Any], str]:
    """Widgets for the user's own rows: the options of ``zorba train``, and why they are not complete yet."""
    file = st.file_uploader("Rows", type=_KINDS, key="rows_file", help="Kept on this machine, beside the runs.")
    if file is not None:
        st.session_state["rows_path"] = str(_keep(file.name, file.getvalue()))
    path = st.session_state.get("rows_path")
    if not path:
        return {}, "Upload a file with a column of text and a column of labels or answers."
    try:
        frame = read_rows(TableRows(path))
        return _mapped(path, frame, _tokenizer(model)), ""
    except (ZorbaError, OSError) as error:
        return {}, re.sub(r" \(--[a-z-]+\)", "", str(error))  # options of the command


def _keep(name: str, content: bytes) -> Path:
    """Write an uploaded file into the runs folder, in a folder that only its owner can read. Return its path."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(name).stem)[:60].strip(".-_") or "rows"
    folder = runs.folder() / _UPLOADS
    target = folder / hashlib.sha256(content).hexdigest()[:12] / f"{stem}{Path(name).suffix.lower()}"
    if not target.is_file():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        target.parent.mkdir(exist_ok=True)
        write_text(folder / ".gitignore", "*\n")
        write_bytes(target, content)
    return target


def _mapped(path: str, frame: pd.DataFrame, tokenizer: Any) -> dict[str, Any]:
    """Widgets for columns and label words, which start with the inferred ones: the options of ``zorba train``.

    Raises:
        ZorbaError: they make no task.
    """
    columns = [str(column) for column in frame.columns if not str(column).startswith("#")]
    turn = hashlib.sha256(path.encode()).hexdigest()[:8]  # another file has other columns
    try:
        usual = task_for(path, Overrides(), tokenizer=lambda: tokenizer)
    except InvalidInputError:
        usual = None
    writes = usual is not None and usual.kind == "text"
    one, two, three = st.columns(3)
    kind = one.segmented_control(
        "The model", ["chooses a label", "writes a text"], default="writes a text" if writes else "chooses a label",
        required=True, key=f"kind_{turn}",
    )  # fmt: skip
    is_label = kind == "chooses a label"
    asked_first = None if usual is None else getattr(usual.rows, "label", None) if is_label else usual.answer
    asked = two.selectbox(
        "Label column" if is_label else "Answer column", columns, key=f"asked_{turn}",
        index=columns.index(asked_first) if asked_first in columns else len(columns) - 1,
    )  # fmt: skip
    client = three.selectbox(
        "Client column",
        ["", *columns],
        key=f"client_{turn}",
        help="The client that each row belongs to, if there is such a column.",
    )
    others = [column for column in columns if column not in (asked, client)]
    first = [column for column in (usual.text_columns if usual is not None else others[:1]) if column in others]
    texts = st.multiselect("The model reads", others, default=first, key=f"texts_{turn}_{asked}_{client}")
    if not texts:
        raise InvalidInputError("choose the columns that the model reads")
    overrides = {"text": tuple(texts), "label" if is_label else "answer": asked, "client": client or None}
    task = task_for(path, Overrides(**overrides), tokenizer=lambda: tokenizer)
    words = ""
    if is_label:
        shown = joined(task.label_words)
        words = st.text_input(
            f"Label words, for {ui.plain(', '.join(task.label_names[:8]))}", value=shown, key=f"words_{turn}_{asked}",
            help="The model's answer for each label, separated by commas; one with a comma stands in double quotes. "
            "Words of one token are the fastest.",
        )  # fmt: skip
        given = tuple(word for word in listed(words) if word)
        if given != task.label_words:
            task = task_for(path, Overrides(**overrides, label_words=given), tokenizer=lambda: tokenizer)
    _example(task, frame, asked, tokenizer)
    return {
        "data": path,
        "text": joined(texts),
        "label" if is_label else "answer": asked,
        "client": client or None,
        "label_words": joined(task.label_words) if is_label else None,
    }


def _example(task: Task, frame: pd.DataFrame, asked: str, tokenizer: Any) -> None:
    """The first row as the model reads it, and its answer."""
    row = frame.iloc[0]
    read = FIELD.sub(lambda match: str(row[match[1]]).strip(), task.prompt)
    answer = dict(zip(task.label_names, task.label_words, strict=True)).get(label_text(row[asked]), str(row[asked]))
    st.code(f"{read} {answer}", language=None, wrap_lines=True)
    labels = f", {len(task.label_names)} labels" if task.label_names else ""
    st.caption(f"{ui.count(len(frame), 'row')}{labels}. The first row is {len(tokenizer.encode(read))} tokens long.")


def expectation(model: str, options: dict[str, Any], allocation: Allocation) -> str:
    """The accuracy before training and the time that training will take, measured here; or why neither can be."""
    from zorba_core.runs.expect import expect
    from zorba_core.runs.load import suited_settings

    try:
        given = {name: value for name, value in options.items() if name in Settings.model_fields}
        rows = {name: value for name, value in options.items() if name not in given}
        task = TrainRequest(**rows).resolved_task(model)
        settings = suited_settings(task, model, given)
        expected = expect(task, model, settings, allocation)
        return expected.sentence(Path(model).name, task.counted, settings, allocation.num_clients)
    except ZorbaError as error:
        return str(error)


def client_count(options: dict[str, Any]) -> int | None:
    """Number of clients in the rows; None if no column has them."""
    if not options.get("client"):
        return None
    return pd.Series(read_rows(TableRows(options["data"]))[options["client"]]).nunique()
