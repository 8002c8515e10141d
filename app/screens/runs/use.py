"""A run's model in use: try it on a text, and see how good it is, for which label and for which client."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from app.screens.runs import work
from app.shared import components
from app.shared.components import Download, Number
from app.shared.folders import as_code, short
from zorba_core.data.tasks import METRIC_TITLES, Task
from zorba_core.errors import ZorbaError
from zorba_core.files import to_json
from zorba_core.plots.quality import MOST_CLIENTS, answer_figure, clients_figure, confusion_figure
from zorba_core.runs.run_task import task_of
from zorba_core.study.comparison import Record

if TYPE_CHECKING:
    from zorba_core.runs.use.evaluating import EvaluationReport
    from zorba_core.runs.use.predicting import Predictions

EVERY_SECONDS = 1.0
_TRIED, _JUDGED = "tried_texts", "judged_runs"
_MOST_ROWS = 500
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
    with st.expander("Use this model elsewhere: Python, command", icon=":material/code:"):
        python, command = st.tabs(["Copy as Python", "Copy as command"])
        python.code(as_python(record, task), language="python")
        command.code(as_commands(record, task), language="bash", wrap_lines=True)


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
                column if len(task.text_columns) > 1 else "Text",
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
        if predictions.note:
            st.caption(f":material/content_cut: {predictions.note[:1].upper()}{predictions.note[1:]}.")
        return
    changed = columns["prediction"] != columns["base_prediction"]
    before, after = (components.plain(str(columns[name])) for name in ("base_prediction", "prediction"))
    st.markdown(
        f"**{before}** before, **{after}** after fine-tuning." if changed else f"**{after}**, before and after."
    )
    if predictions.note:
        st.caption(f":material/content_cut: {predictions.note[:1].upper()}{predictions.note[1:]}.")
    probabilities = {base: predictions.probabilities(0, base) for base in (True, False)}
    components.figure(
        answer_figure(probabilities[True], probabilities[False], palette=components.palette()),
        key="answer_plot",
        name="zorba-answer",
        alt=f"Probability of {after} after fine-tuning: {columns['probability']:.0%}; of {before} before: "
        f"{columns['base_probability']:.0%}.",
    )


def _how_good(record: Record, task: Task) -> None:
    st.markdown("## How good is it, and for whom?")
    judged = st.session_state.setdefault(_JUDGED, set())
    if record.name not in judged:
        st.caption(
            "Evaluates base and fine-tuned model on the run's own evaluation rows: which labels it confuses, which "
            "clients the shared model serves badly, which answers changed."
        )
        st.button(
            "Evaluate",
            key=f"evaluate_{record.name}",
            icon=":material/fact_check:",
            on_click=judged.add,
            args=(record.name,),
        )
        return
    _following(
        lambda: work.evaluation(record.path),
        "the evaluation",
        lambda report: _report(record, task, report),
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


def _report(record: Record, task: Task, report: EvaluationReport) -> None:
    components.numbers(_headline(report))
    st.caption(f"On {report.after.rows:,} rows of {components.plain(report.data)}.")
    for note in report.notes:
        st.caption(f":material/info: {components.plain(note)}.")
    of_labels = hasattr(report.after, "confusion_CC")
    left, right = st.columns(2) if of_labels else (None, st.container())
    if left is not None:
        left.markdown("**What it takes for what**")
        right_rows = int(report.after.right_R.sum())
        with left:
            components.figure(
                confusion_figure(report.after.confusion_CC, report.after.labels, palette=components.palette()),
                key="confusion_plot",
                name=f"{record.name}-confusion",
                alt=f"Confusion of {len(report.after.labels)} labels: {right_rows} of {report.after.rows} rows right.",
            )
    with right:
        _clients(record, report)
    if report.before is not None:
        _changed(record, report)
    components.downloads(_files(record, report), key="use_files")


def _headline(report: EvaluationReport) -> list[Number]:
    low, high = report.after.interval
    before = report.before
    numbers = [
        Number(
            components.capitalised(report.after.title),
            f"{report.accuracy:.1%}",
            "Share of rows with the right answer, and its 95 % interval (Wilson).",
            f"{low:.1%} to {high:.1%}",
        )
    ]
    if before is not None:
        change = report.changes
        numbers += [
            Number("Before fine-tuning", f"{before.accuracy:.1%}", "The base model on the same rows.", None),
            Number(
                "Errors fixed",
                f"{change['fixed']}",
                "Rows that the base model got wrong and the fine-tuned one gets right.",
                f"{change['broken']} newly wrong",
            ),
        ]
    if hasattr(report.after, "means"):
        return numbers + _of_text(report)
    numbers += [
        Number(
            "Macro F1", f"{report.after.macro_f1:.3f}", "Mean of the labels' F1: small labels count like large ones."
        ),
        Number(
            "Calibration error",
            f"{report.after.calibration()['ece']:.3f}",
            "ECE: how far confidence is from accuracy, on average over ten bins. 0 is best.",
            None if before is None else f"{before.calibration()['ece']:.3f} before",
        ),
    ]
    return numbers


def _of_text(report: EvaluationReport) -> list[Number]:
    """Numbers that only written answers have."""

    def beside(value: Callable[[Any], float], form: str) -> str | None:
        return None if report.before is None else f"{value(report.before):{form}} before"

    after = report.after
    helps = {
        "token_f1": "Harmonic mean of precision and recall of the answers' words, in any order.",
        "rouge_l": "The same of the longest run of words in common, gaps allowed.",
    }
    return [
        *(
            Number(
                components.capitalised(METRIC_TITLES[name]),
                f"{after.means[name]:.3f}",
                text,
                beside(lambda quality, name=name: quality.means[name], ".3f"),
            )
            for name, text in helps.items()
        ),
        Number(
            "Perplexity",
            f"{after.perplexity:.3g}",
            "exp of the mean cross-entropy of the wanted answers' tokens: how many tokens it hesitates between.",
            beside(lambda quality: quality.perplexity, ".3g"),
        ),
    ]


def _clients(record: Record, report: EvaluationReport) -> None:
    st.markdown("**Whom it serves badly**")
    if not report.per_client:
        st.caption(f"Not known for each client: {components.plain(report.per_client_of)}.")
        return
    worst, metric, count = report.per_client[0], report.after.title, len(report.per_client)
    components.figure(
        clients_figure(report.per_client, report.accuracy, metric=metric, palette=components.palette()),
        key="clients_plot",
        name=f"{record.name}-clients",
        alt=f"{components.capitalised(metric)} of {count} clients; the worst served is {worst['client']} with "
        f"{worst['accuracy']:.0%}.",
    )
    more = f" The worst {MOST_CLIENTS} are drawn." if len(report.per_client) > MOST_CLIENTS else ""
    st.caption(
        f"Measured on {components.plain(report.per_client_of)}. Bars: 95 % intervals. The dashed line is "
        f"that of all evaluation rows.{more}"
    )


def _changed(record: Record, report: EvaluationReport) -> None:
    change = report.changes
    st.markdown(f"**Answers that changed**: {change['fixed']} errors fixed, {change['broken']} rows newly wrong")
    which = st.segmented_control(
        "Show",
        ["fixed", "broken"],
        default="broken" if change["broken"] else "fixed",
        format_func={"fixed": "Errors fixed", "broken": "Newly wrong"}.get,
        key=f"changed_{record.name}",
        label_visibility="collapsed",
    )
    frame = report.changed
    frame = frame[frame["change"] == which] if which else frame
    if frame.empty:
        st.caption("None.")
        return
    columns = {
        f"{when}_probability": st.column_config.ProgressColumn(
            f"sure {when}",
            help=f"Probability of the answer {when} fine-tuning",
            format="percent",
            min_value=0,
            max_value=1,
            width="small",
        )
        for when in ("before", "after")
    }
    st.dataframe(
        frame.drop(columns=["change"]).head(_MOST_ROWS),
        hide_index=True,
        width="stretch",
        height="auto" if len(frame) <= 8 else 320,
        column_config=columns,
        alt=f"{len(frame)} rows whose answer changed: text, label, answer before and after.",
    )
    if len(frame) > _MOST_ROWS:
        st.caption(f"The first {_MOST_ROWS} of {len(frame):,}; the file has all.")


def _files(record: Record, report: EvaluationReport) -> list[Download]:
    files = [
        Download(
            "Evaluation (JSON)",
            f"{record.name}-evaluation.json",
            "application/json",
            lambda: to_json(report.describe(), indent=1).encode(),
            "Everything above as numbers; the same as zorba evaluate --json.",
        )
    ]
    if report.before is not None:
        files.append(
            Download(
                "Changed answers (CSV)",
                f"{record.name}-changed.csv",
                "text/csv",
                lambda: report.changed.to_csv(index=False).encode(),
                "With the texts of the evaluation rows.",
            )
        )
    return files


def as_python(record: Record, task: Task) -> str:
    """The same by the library."""
    return (
        "import zorba_core as zorba\n\n"
        f"run = zorba.read_run({_folder(record)!r})\n"
        f"print(run.predict({_example(task)!r}, base=True))\n"
        "report = run.evaluate()\n"
        "print(report.accuracy, report.changed)\n"
        f"run.export({f'{task.name}-model'!r})\n"
    )


def as_commands(record: Record, task: Task) -> str:
    """The same by the command."""
    folder = _folder(record)
    example = _example(task)
    texts = [example] if isinstance(example, str) else [f"{column}={text}" for column, text in example.items()]
    asked = [word for text in texts for word in ("--text", text)]
    return "\n".join(
        shlex.join(["zorba", *words])
        for words in (
            ["predict", folder, *asked],
            ["predict", folder, "--file", "in.csv", "--out", "out.csv"],
            ["evaluate", folder],
            ["export", folder, "--to", f"{task.name}-model"],
        )
    )


def _folder(record: Record) -> str:
    return short(Path(record.path))


def _example(task: Task) -> str | dict[str, str]:
    columns = _columns(task)
    return "a text" if len(columns) == 1 else {column: "a text" for column in columns}
