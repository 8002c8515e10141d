"""Rows of the reader's own: point to a file or upload one, say what its columns are, and see what a model will read.

What is not chosen is inferred as ``zorba train --data`` infers it. Nothing is sent anywhere: an uploaded file is kept
in the runs folder, where git ignores it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from app.shared import components
from app.shared.escape import as_code, in_figure
from app.shared.links import draw, forget, keep, linked, linked_many, linked_text, remembered
from zorba_core.cli.train import TaskOptions
from zorba_core.data.divide import DIRICHLET, NATURAL, divide, named_clients
from zorba_core.data.infer import default_prompt, infer_task
from zorba_core.data.load import clients_of, load
from zorba_core.data.own_rows import label_texts, missing_file, read_rows
from zorba_core.data.own_task import as_list, listed, task_name
from zorba_core.data.prompts import piece_ids
from zorba_core.data.tables import is_empty
from zorba_core.data.task import CLIENT, FIELD, PLACE, Said, TableRows, Task
from zorba_core.errors import InvalidInputError, ZorbaError
from zorba_core.files import write_bytes, write_text
from zorba_core.plots import labels_figure, labels_per_client

UPLOADS = ".uploads"  # in the runs folder; a hidden entry is no run
HERE, UPLOAD = "here", "upload"
LABEL, TEXT = "label", "text"
_NOBODY = ""  # no column names the clients
_LONGEST_PROMPT = 500
_FILE, _UPLOADED = "train_data_shown", "train_data_uploaded"
_MAPPING = ("train_kind", "train_label", "train_columns", "train_prompt", "train_words", "train_client")
_COUNTED_ROWS = 2_000


@dataclass(frozen=True, eq=False)
class OwnRows:
    """A task on the reader's rows, and the options by which ``zorba train`` makes the same one."""

    task: Task
    options: dict[str, Any]
    num_clients: int | None  # that the rows name


def ask(runs_folder: Path, model: str | None) -> OwnRows | None:
    """The controls, and what came of them; None until there is a task."""
    path = _file(runs_folder)
    if not path:
        return None
    if st.session_state.get(_FILE) not in (None, path):
        for key in _MAPPING:  # another file has other columns
            forget(key)
    st.session_state[_FILE] = path
    try:
        rows = TableRows(path)
        if missing_file(rows):
            raise InvalidInputError(f"{path!r} is no file on this machine")
        frame = read_rows(rows)
        tokenizer = None if model is None else _tokenizer(model)
        own = _mapped(rows, frame, tokenizer)
    except (ZorbaError, OSError) as error:
        components.problem("These rows cannot be used yet", components.sentence(error))
        return None
    return own


def _file(runs_folder: Path) -> str:
    """The path of the rows; empty until one is given."""
    where = linked(
        st.segmented_control,
        "Where the rows are",
        {HERE: "On this machine", UPLOAD: "Upload"},
        required=True,
        key="train_rows",
    )
    if where == HERE:
        path = linked_text(
            "File",
            key="train_data",
            longest=300,
            placeholder="/data/tickets.csv, or /data/clients/*.csv",
            help="CSV, TSV, JSON, Parquet or Excel; of a pattern or a folder each file is one client.",
        ).strip()
        if not path:
            st.caption("A file with a row for each example: a column of text, and a column of labels or of answers.")
        return path
    file = st.file_uploader(
        "Rows",
        type=["csv", "tsv", "jsonl", "json", "parquet", "xlsx"],
        key="train_upload",
        help="Kept on this machine, beside the runs. CSV, TSV, JSON, Parquet or Excel.",
    )
    if file is not None:
        st.session_state[_UPLOADED] = str(keep_upload(runs_folder, file.name, file.getvalue()))
    kept = st.session_state.get(_UPLOADED, "")
    if kept:
        place = "/".join(Path(kept).parts[-3:])
        st.caption(f":material/link_off: A link cannot hold an uploaded file. It is kept as {as_code(place)}.")
    return kept


def keep_upload(runs_folder: Path, name: str, content: bytes) -> Path:
    """Write an uploaded file beside the runs, in a folder for its owner alone; the file's place."""
    given = Path(name)
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", given.stem)[:60].strip(".-_") or "rows"  # the run is called by it
    folder = runs_folder / UPLOADS
    target = folder / hashlib.sha256(content).hexdigest()[:12] / f"{stem}{given.suffix}"
    runs_folder.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)  # also one that was there: rows of the user's own are in it
    if not target.is_file():
        target.parent.mkdir(exist_ok=True)
        write_text(folder / ".gitignore", "*\n")
        write_bytes(target, content)
    return target


def who_holds_what(own: OwnRows, num_clients: int, seed: int) -> None:
    """The labels of each client's rows, as the run will divide them."""
    frame = load(own.task)
    if own.task.kind != "labels":
        return
    division = NATURAL if own.num_clients is not None else DIRICHLET
    try:
        held_N = divide(frame, num_clients, TaskOptions.model_fields["alpha"].default, seed, division)
    except ZorbaError as error:
        components.problem("These rows cannot be divided among the clients", components.sentence(error))
        return
    rows_CN = labels_per_client(frame["label"].to_numpy(), held_N, own.task.num_classes)
    st.markdown("## Who holds which labels")
    total_N = rows_CN.sum(axis=0)
    components.figure(
        labels_figure(
            rows_CN,
            in_figure(own.task.label_names),
            clients=in_figure(clients_of(frame)) if own.num_clients is not None else (),
            palette=components.palette(),
        ),
        key="train_labels",
        name="zorba-labels",
        alt=f"{len(frame)} training rows of {own.task.num_classes} labels among {num_clients} clients, who hold "
        f"{total_N.min()} to {total_N.max()} rows each.",
    )
    st.caption(
        f"{len(frame):,} rows to train on, {total_N.min():,} to {total_N.max():,} a client; the others are held out to "
        "evaluate on."
    )


@st.cache_resource(max_entries=3, show_spinner="Reading the model's tokenizer")
def _tokenizer(model: str) -> Any:
    from zorba_core.runs.models import load_tokenizer

    return load_tokenizer(model)


def _mapped(rows: TableRows, frame: pd.DataFrame, tokenizer: Any) -> OwnRows:
    columns = [str(column) for column in frame.columns if column not in (PLACE, CLIENT)]
    st.dataframe(frame[columns].head(5), hide_index=True, width="stretch", height=213)
    name = task_name(rows.train)
    try:
        inferred = infer_task(rows, Said(), name, tokenizer)
    except InvalidInputError:  # the reader says what cannot be inferred
        inferred = None
    usual_kind = TEXT if inferred is not None and inferred.kind == "text" else LABEL
    kind = linked(
        st.segmented_control,
        "The model is to",
        {LABEL: "choose a label", TEXT: "write a text"},
        usual_kind,
        required=True,
        key="train_kind",
    )
    left, right = st.columns(2)
    with left:
        asked = _column("Label" if kind == LABEL else "Answer", columns, _usual_asked(inferred, kind, columns))
    usual_texts = [column for column in (columns if inferred is None else inferred.text_columns) if column != asked]
    with right:
        client = linked(
            st.selectbox,
            "Whose row it is",
            [_NOBODY, *(column for column in columns if column != asked)],
            format_func=lambda column: column or "no column says so",
            key="train_client",
            help="Each value of this column is one client of the plan. Without one, rows are divided by label.",
        )
    texts = linked_many(
        st.multiselect,
        "Columns that the model reads",
        [column for column in columns if column not in (asked, client)],
        usual_texts if inferred is not None else usual_texts[:1],
        key="train_columns",
    )
    if not texts:
        raise InvalidInputError("choose the columns that the model reads")
    prompt = _prompt(texts, asked)
    said = Said(
        tuple(FIELD.findall(prompt)),
        label=asked if kind == LABEL else None,
        answer=asked if kind == TEXT else None,
        prompt=prompt,
        client=client or None,
    )
    task = infer_task(rows, said, name, tokenizer)
    words = _words(task) if kind == LABEL else ()
    if words != task.label_words:
        task = infer_task(rows, Said(**{**vars(said), "label_words": words}), name, tokenizer)
    _example(task, frame, tokenizer)
    _balance(task, frame)
    options = {
        "data": rows.train,
        "label": said.label,
        "answer": said.answer,
        "prompt": prompt,
        "client": said.client,
        "label_words": as_list(words) if kind == LABEL else None,
    }
    return OwnRows(task, options, len(named_clients(task)) or None)


def _usual_asked(inferred: Task | None, kind: str, columns: Sequence[str]) -> str:
    column = None
    if inferred is not None:
        column = inferred.rows.label if kind == LABEL else inferred.answer
    return column if column in columns else columns[-1]


def _column(label: str, columns: Sequence[str], usual: str) -> str:
    return linked(st.selectbox, f"{label} column", columns, usual, key="train_label")


def _prompt(texts: Sequence[str], asked: str) -> str:
    """The template, edited beside the columns: one that names other columns than those chosen starts again."""
    usual = default_prompt(texts, asked)
    value = remembered("train_prompt", usual, lambda text: text[:_LONGEST_PROMPT]) or usual
    if sorted(FIELD.findall(value)) != sorted(texts):
        value = usual
    draw(
        st.text_area,
        "train_prompt",
        value,
        (),
        "What the model reads",
        height=80,
        max_chars=_LONGEST_PROMPT,
        help="Column names in braces stand for their texts. The answer follows the last word.",
    )
    keep("train_prompt", None if value == usual else value)
    return value


def _words(task: Task) -> tuple[str, ...]:
    """The answer for each label; a list that does not fit the labels starts again."""
    usual = ", ".join(as_list([word]) for word in task.label_words)
    value = remembered("train_words", usual, lambda text: text[:2_000]) or usual
    if len(listed(value)) != task.num_classes:
        value = usual
    named = components.plain(", ".join(task.label_names[:12])) + (" …" if task.num_classes > 12 else "")
    draw(
        st.text_input,
        "train_words",
        value,
        (),
        f"Words to answer with, for {named}",
        max_chars=2_000,
        help="One for each label, with commas between. Words of one token are the fastest.",
    )
    keep("train_words", None if value == usual else value)
    return tuple(listed(value))


def _example(task: Task, frame: pd.DataFrame, tokenizer: Any) -> None:
    """A row as the model reads it, with its count of tokens, and what the tokenizer makes of the label words."""
    number = int(
        st.number_input("Example row", 1, len(frame), 1, key="train_example", help="Of the file, without its header.")
    )
    row = frame.iloc[[number - 1]]
    read = FIELD.sub(lambda field: _cell(row, field[1]), task.prompt)
    if task.kind == "text":
        answer = _cell(row, task.answer)
    else:
        label = _cell(row, task.rows.label)
        answer = dict(zip(task.label_names, task.label_words, strict=True)).get(label, label)
    st.code(f"{read} {answer}", language=None, wrap_lines=True)
    if tokenizer is None:
        return
    count = len(tokenizer.encode(read))
    lengths = [
        len(tokens)
        for tokens in tokenizer(
            [FIELD.sub(lambda field, i=i: _cell(frame.iloc[[i]], field[1]), task.prompt) for i in _sampled(frame)],
            verbose=False,
        )["input_ids"]
    ]
    st.caption(
        f"{count} tokens and the answer. Of {len(lengths):,} rows looked at, half have at most "
        f"{sorted(lengths)[len(lengths) // 2]} tokens and the longest {max(lengths)}; what exceeds the length L "
        "is cut off the texts."
    )
    if task.kind == "labels":
        pieces = piece_ids(tokenizer, [f" {word}" for word in task.label_words])
        split = [word for word, ids in zip(task.label_words, pieces, strict=True) if len(ids) > 1]
        if split:
            st.caption(
                f":material/info: This tokenizer splits {components.plain(', '.join(split[:8]))}"
                f"{' …' if len(split) > 8 else ''}. Answers of several tokens work, and take longer."
            )


def _sampled(frame: pd.DataFrame) -> range:
    return range(0, len(frame), max(1, len(frame) // 200))


def _cell(row: pd.DataFrame, column: str) -> str:
    value = row[column].iloc[0]
    return "" if is_empty(value) else str(value).strip()


def _balance(task: Task, frame: pd.DataFrame) -> None:
    if task.kind != "labels":
        return
    counts = Counter(text for text in label_texts(frame, task.rows.label) if text)
    (most, count), *_, (least, fewest) = counts.most_common()
    how = f"each on {count:,}" if count == fewest else f"most rows have {most} ({count:,}), fewest {least} ({fewest:,})"
    guess = f"Guessing {'one label' if count == fewest else 'the commonest'} is right in {count / counts.total():.0%}."
    st.caption(components.plain(f"{len(frame):,} rows, {task.num_classes} labels: {how}. {guess}"))
