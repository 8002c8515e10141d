"""Runs: the table, their curves, the settings that differ, and one run in detail. Reads run folders; starts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import streamlit as st

from app.parts import pictures, runs, ui
from zorba_core.errors import ZorbaError
from zorba_core.plots.training import AXES, MEASURES, clients_figure, confusion_figure, learning_curves_figure

MATRIX_HELP = (
    "A column is a client, most blocks first; a row is a block. On the right, how many clients trained each block; "
    "orange: far fewer than the others had."
)
_PROBLEM = "runs_problem"


def page() -> None:
    st.title("Runs", anchor=False)
    st.markdown("Choose runs in the table to compare their curves. The first one chosen is shown below in full.")
    listed, problems = runs.listing()
    if message := st.session_state.pop(_PROBLEM, None):
        ui.problem(message)
    for line in problems[:5]:
        st.caption(f":material/folder_off: {ui.plain(line)}")
    if not listed:
        st.info("There is no run yet. The page Train starts one, without data or download.", icon=":material/info:")
        st.page_link("views/train.py", label="Train", icon=":material/model_training:")
        return
    chosen = _table(listed)
    if not chosen:
        st.info("Choose one or more runs in the table.", icon=":material/check_box:")
        return
    _curves(chosen)
    if len(chosen) > 1:
        differing = runs.differences(chosen)
        st.header("What differs", anchor=False)
        st.dataframe(differing, alt="Settings that are not the same in all runs.")
    _one(chosen[0])


def _table(listed: Sequence[runs.Run]) -> list[runs.Run]:
    """Draw the table and return the selected runs."""
    names = [run.path.name for run in listed]
    rows = ui.table(
        runs.table(listed),
        names=names,
        param="run",
        default=names[:1],
        height=min(38 + 35 * len(listed), 300),
        selection_mode="multi-row",
        column_config={
            "Λ": st.column_config.NumberColumn(format="%.3f", help="The bias of the allocation; lower is better."),
            "VRAM (GiB)": st.column_config.NumberColumn(format="%.1f", help="Over all clients, by the paper's model."),
            "accuracy (%)": st.column_config.NumberColumn(
                format="%.1f", help="After the last evaluation, on rows that no client trains on."
            ),
            "best (%)": st.column_config.NumberColumn(format="%.1f", help="The best of all evaluations."),
        },
        alt=f"Table of {len(listed)} runs.",
    )
    chosen = [listed[row] for row in rows]
    with st.container(horizontal=True, gap="small"):
        _rename(chosen)
        _delete(chosen)
    return chosen


def _rename(chosen: Sequence[runs.Run]) -> None:
    if not chosen:
        return
    run = chosen[0]
    with st.popover("Rename", icon=":material/edit:"), st.form(f"rename_{run.path.name}", border=False):
        st.text_input("New name", value=run.path.name, key=f"name_{run.path.name}", max_chars=100)
        st.form_submit_button("Rename", on_click=_take_name, args=(run.path,))


def _take_name(path: Path) -> None:
    """Callback of the form. The renamed run stays chosen."""
    name = st.session_state[f"name_{path.name}"].strip()
    try:
        if name != path.name:
            runs.rename(path, name)
            st.query_params["run"] = [
                name if each == path.name else each for each in st.query_params.get_all("run")
            ] or [name]
    except ZorbaError as error:
        st.session_state[_PROBLEM] = str(error)


def _delete(chosen: Sequence[runs.Run]) -> None:
    if not chosen:
        return
    what = ui.count(len(chosen), "run")
    with st.popover(f"Delete {what}", icon=":material/delete:"):
        st.markdown("\n".join(f"- {ui.code(run.path.name)}" for run in chosen[:10]))
        st.caption("The folders are removed. This cannot be undone.")
        paths = [run.path for run in chosen]
        st.button(
            f"Delete {what} for good", icon=":material/delete_forever:", key="delete", on_click=_remove, args=(paths,)
        )


def _remove(paths: Sequence[Path]) -> None:
    """Callback of the button."""
    try:
        for path in paths:
            runs.delete(path)
    except ZorbaError as error:
        st.session_state[_PROBLEM] = str(error)


def _curves(chosen: Sequence[runs.Run]) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        measure = st.segmented_control(
            "Curve", list(MEASURES), format_func=MEASURES.__getitem__, key="measure", bind="query-params",
            required=True, default="eval_accuracy", label_visibility="collapsed",
        )  # fmt: skip
        x = st.selectbox("Against", list(AXES), format_func=AXES.__getitem__, key="x", bind="query-params", width=200)
        smooth = st.number_input("Smooth over", 1, 50, key="smooth", bind="query-params", width=130)
        log = st.toggle("Log values", key="log", bind="query-params")
        log_x = st.toggle(
            "Log x", key="log_x", bind="query-params", help="The value before the first round is not on this axis."
        )
        together = st.toggle(
            "Mean over seeds", key="together", bind="query-params",
            help="Runs that differ only in their seed become one curve with a band from the least to the most.",
        )  # fmt: skip
    rows = sorted({str(run.config.get("dataset", "")) for run in chosen})
    if len(rows) > 1:
        st.warning(
            f"These runs have different rows ({', '.join(map(ui.plain, rows))}): their values do not compare.",
            icon=":material/warning:",
        )
    ui.figure(
        learning_curves_figure(
            chosen, measure=measure, x=x, log=log, log_x=log_x, smooth=smooth,
            groups=_groups(chosen) if together else None, palette=ui.palette(), height=340,
        ),
        key="curves", name="zorba-curves", alt=f"{MEASURES[measure]} of {ui.count(len(chosen), 'run')}.",
    )  # fmt: skip


def _groups(chosen: Sequence[runs.Run]) -> dict[str, list[runs.Run]]:
    """Like runs, by the name of the first and their number."""
    alike: dict[str, list[runs.Run]] = {}
    for run in chosen:
        alike.setdefault(runs.like(run), []).append(run)
    return {each[0].path.name + (f", {len(each)} seeds" if len(each) > 1 else ""): each for each in alike.values()}


def _one(run: runs.Run) -> None:
    st.header(ui.plain(run.path.name), anchor=False)
    summary, allocation = run.summary, run.allocation
    vram = summary.get("vram_gib", {}).get("total")
    evaluated = run.metrics["eval_accuracy"].dropna()
    title = runs.metric_title(run)
    tiles = (
        (f"{title}, before → last", f"{evaluated.iloc[0]:.1%} → {evaluated.iloc[-1]:.1%}" if len(evaluated) else "–"),
        (f"Best {title.lower()}", f"{runs.best(run):.1%}" if len(evaluated) else "–"),
        ("Rounds", f"{run.rounds_done:,}"),
        ("Λ", ui.number(allocation.bias_lambda)),
        ("VRAM, all clients", "–" if vram is None else f"{vram:,.1f} GiB"),
    )
    for (label, value), place in zip(tiles, st.columns(len(tiles)), strict=True):
        place.metric(label, value, border=True)
    left, right = st.columns(2, gap="large")
    with left:
        st.header("Who trained what", anchor=False, help=MATRIX_HELP)
        ui.figure(
            pictures.plain_matrix(allocation, height=300), key="run_matrix", name=f"{run.path.name}-allocation",
            alt=f"Which of {allocation.num_blocks} blocks each of {allocation.num_clients} clients trained.",
        )  # fmt: skip
    with right:
        if runs.state(run) == "finished":
            _try(run)
        else:
            st.info(
                "The model can be used when the run has finished. The page Train resumes it.", icon=":material/info:"
            )
    if runs.state(run) == "finished":
        _evaluation(run)
    with st.expander("All settings"):
        settings = pd.DataFrame({"value": [str(value) for value in run.config.values()]}, index=list(run.config))
        st.dataframe(settings, alt="The settings of the run.")


def _try(run: runs.Run) -> None:
    st.header("Try it", anchor=False)
    task, message = runs.error_of(lambda: run.task)
    if task is None:
        ui.problem(message)
        return
    columns = list(dict.fromkeys(task.text_columns))
    with st.form(f"try_{run.path.name}", border=False):
        texts = {
            column: st.text_input(ui.plain(column) if len(columns) > 1 else "Text", key=f"try_{run.path.name}_{column}")
            for column in columns
        }
        asked = st.form_submit_button("Predict", type="primary", icon=":material/play_arrow:")
    if not asked:
        return
    if not any(text.strip() for text in texts.values()):
        st.info("Type a text first.", icon=":material/keyboard:")
        return
    answer, message = runs.error_of(runs.predict, run.path, texts)
    if answer is None:
        ui.problem(message)
        return
    row = answer.iloc[0]
    if "probability" not in row:
        st.markdown(f"Before: {ui.plain(row['base_prediction'])}  \nAfter: {ui.plain(row['prediction'])}")
        return
    st.markdown(
        f"**{ui.plain(row['prediction'])}** ({row['probability']:.0%}) after training; "
        f"**{ui.plain(row['base_prediction'])}** ({row['base_probability']:.0%}) before."
    )


def _evaluation(run: runs.Run) -> None:
    st.header("Evaluate", anchor=False)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        key = f"evaluate_{run.path.name}"
        if st.button("Evaluate on held-out rows", key=f"{key}_button", icon=":material/rule:"):
            st.session_state[key] = True
        st.caption("Loads the model, and compares it with the model before training. Takes seconds to minutes.")
    if not st.session_state.get(key):
        return
    report, message = runs.error_of(runs.evaluate, run.path)
    if report is None:
        ui.problem(message)
        return
    before = f", {report.before.accuracy:.1%} before training" if report.before is not None else ""
    low, high = report.after.interval
    st.markdown(
        f"**{report.accuracy:.1%}** of {report.after.rows:,} rows are right "
        f"(95% interval {low:.1%} to {high:.1%}){before}."
    )
    left, right = st.columns(2, gap="large")
    if hasattr(report.after, "confusion_CC"):
        with left:
            ui.figure(
                confusion_figure(report.after.confusion_CC, report.after.labels, palette=ui.palette()),
                key="confusion", name=f"{run.path.name}-confusion", alt="Labels by what was predicted.",
            )  # fmt: skip
    if report.per_client:
        with right:
            ui.figure(
                clients_figure(report.per_client, report.accuracy, palette=ui.palette()),
                key="clients", name=f"{run.path.name}-clients", alt="Accuracy of each client, the worst served first.",
            )  # fmt: skip


page()
