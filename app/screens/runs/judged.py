"""How good a run's model is on its evaluation rows: for which labels, for which clients, and which answers changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import streamlit as st

from app.shared import components
from app.shared.components import Download, Number
from zorba_core.data.tasks import METRIC_TITLES, Task
from zorba_core.files import to_json
from zorba_core.plots.quality import MOST_CLIENTS, clients_figure, confusion_figure
from zorba_core.study.comparison import Record

if TYPE_CHECKING:
    from zorba_core.runs.use.evaluating import EvaluationReport

_MOST_ROWS = 500


def draw(record: Record, task: Task, report: EvaluationReport) -> None:
    """Headline numbers, confusion, clients, changed answers, and the files of an evaluation."""
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

    def perplexity(quality: Any) -> float:
        return float(f"{quality.perplexity:.3g}")  # three digits, and no power of ten

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
            f"{perplexity(after):,g}",
            "exp of the mean cross-entropy of the wanted answers' tokens: how many tokens it hesitates between.",
            beside(perplexity, ",g"),
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
    st.markdown(f"**Answers that changed**: errors fixed {change['fixed']}, newly wrong {change['broken']}")
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
            lambda: to_json(report.describe(), indent=1).encode(),
            "Everything above as numbers; the same as zorba evaluate --json.",
        )
    ]
    if report.before is not None:
        files.append(
            Download(
                "Changed answers (CSV)",
                f"{record.name}-changed.csv",
                lambda: report.changed.to_csv(index=False).encode(),
                "With the texts of the evaluation rows.",
            )
        )
    return files
