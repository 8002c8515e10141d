"""A run's model in use: try it on a text, and see how good it is, for which label and for which client."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import streamlit as st

from app.screens.runs import judged, work
from app.shared import components
from app.shared.escape import as_code
from zorba_core.data.tasks import Task
from zorba_core.errors import ZorbaError
from zorba_core.plots.quality import answer_figure
from zorba_core.runs.run_task import task_of
from zorba_core.study.comparison import Record

if TYPE_CHECKING:
    from zorba_core.runs.use.predicting import Predictions

EVERY_SECONDS = 1.0
_TRIED, _JUDGED = "tried_texts", "judged_runs"
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
    _how_good(record, task)


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
    tried = st.session_state.setdefault(_TRIED, {})
    if asked:
        tried[name] = texts
    if name not in tried:
        return
    if not any(tried[name][column].strip() for column in task.text_columns):
        st.info("Type a text first.", icon=":material/keyboard:")
        return
    _following(lambda: work.answer(record.path, tried[name]), "the model", _answer, f"answer_{name}")


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


def _how_good(record: Record, task: Task) -> None:
    st.markdown("## How good is it, and for whom?")
    asked = st.session_state.setdefault(_JUDGED, set())
    if record.name not in asked:
        st.caption(
            "Evaluates base and fine-tuned model on the run's own evaluation rows: which labels it confuses, which "
            "clients the shared model serves badly, which answers changed."
        )
        st.button(
            "Evaluate",
            key=f"evaluate_{record.name}",
            icon=":material/fact_check:",
            on_click=asked.add,
            args=(record.name,),
        )
        return
    _following(
        lambda: work.evaluation(record.path),
        "the evaluation",
        lambda report: judged.draw(record, task, report),
        f"report_{record.name}",
    )


def _following(ask: Callable[[], Any], what: str, show: Callable[[Any], None], key: str) -> None:
    """Show a result; while it is computed, look again every second without blocking the page."""
    try:
        result = work.when_done(ask())
    except ZorbaError as error:
        components.problem(f"There is no answer from {what}", str(error))
        st.button("Try again", key=f"again_{key}", on_click=work.forget, icon=":material/refresh:")
        return
    if result is None:
        st.info(
            f"Computing {what}. A run without a saved model is replayed from its log the first time.",
            icon=":material/hourglass_top:",
        )
        st.fragment(_look_again, run_every=EVERY_SECONDS)(ask)
        return
    show(result)


def _look_again(ask: Callable[[], Any]) -> None:
    if ask().done():
        st.rerun()
