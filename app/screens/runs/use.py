"""A run's model in use: try it on a text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from app.shared import components
from app.shared.escape import as_code
from zorba_core.data.task import Task
from zorba_core.errors import ZorbaError
from zorba_core.plots.quality import answer_figure
from zorba_core.runs.run_task import task_of
from zorba_core.study.comparison import Record

if TYPE_CHECKING:
    from zorba_core.runs.use.predicting import Predictions

_LONGEST_TEXT = 20_000  # characters


def draw(record: Record) -> None:
    """Nothing for a run that is not finished, or was written without what a model is rebuilt from."""
    if record.path is None or not record.summary or "base_weights_sha256" not in record.environment:
        return
    try:
        task = task_of(record.config)
    except ZorbaError as error:
        st.caption(f":material/info: Its model cannot be tried here: {components.plain(str(error))}.")
        return
    _try_it(record, task)


def _try_it(record: Record, task: Task) -> None:
    st.markdown("## Try it")
    st.caption(
        f"The model reads {as_code(task.prompt)} and answers: before fine-tuning, and after. The text stays on "
        "this machine."
    )
    name = record.name
    form, beside = st.form(f"try_{name}", border=False), {"vertical_alignment": "bottom", "gap": "small"}
    with form, st.container(horizontal=True, **beside):
        texts = {
            column: st.text_input(
                components.plain(column) if len(task.text_columns) > 1 else "Text",
                key=f"try_{column}_{name}",
                placeholder="type a text",
                max_chars=_LONGEST_TEXT,
            )
            for column in _columns(task)
        }
        asked = st.form_submit_button("Predict", icon=":material/play_arrow:", type="primary")
    if not asked:
        return
    if not any(texts[column].strip() for column in task.text_columns):
        st.info("Type a text first.", icon=":material/keyboard:")
        return
    try:
        _answer(_predictions(record.path, texts))
    except ZorbaError as error:
        components.problem("The model gives no answer", str(error))


@st.cache_resource(max_entries=32, show_spinner="The model answers …")
def _predictions(run: Path, row: dict[str, str]) -> Predictions:
    """By base and fine-tuned model; the first time a run without a saved model is replayed from its log."""
    from zorba_core.runs.use import predict

    return predict(run, row, base=True)


def _columns(task: Task) -> list[str]:
    options = task.answer_columns if task.kind == "options" else ()
    return list(dict.fromkeys((*task.text_columns, *options)))


def _answer(predictions: Predictions) -> None:
    columns = {name: values[0] for name, values in predictions.columns.items()}
    if not hasattr(predictions, "probabilities"):
        for title, name in (("Before fine-tuning", "base_prediction"), ("After fine-tuning", "prediction")):
            st.markdown(f"**{title}**")
            st.code(columns[name] or " ", language=None, wrap_lines=True)
        _what_was_cut(predictions)
        return
    changed = columns["prediction"] != columns["base_prediction"]
    before, after = (components.plain(str(columns[name])) for name in ("base_prediction", "prediction"))
    st.markdown(
        f"**{before}** before, **{after}** after fine-tuning." if changed else f"**{after}**, before and after."
    )
    _what_was_cut(predictions)
    probabilities = {base: predictions.probabilities(0, base) for base in (True, False)}
    components.figure(
        answer_figure(probabilities[True], probabilities[False], palette=components.palette()),
        key="answer_plot",
        name="zorba-answer",
        alt=f"Probability of {after} after fine-tuning: {columns['probability']:.0%}; of {before} before: "
        f"{columns['base_probability']:.0%}.",
    )


def _what_was_cut(predictions: Predictions) -> None:
    if predictions.note:
        st.caption(f":material/content_cut: {components.plain(components.capitalised(predictions.note))}.")
