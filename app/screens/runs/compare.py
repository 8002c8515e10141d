"""How the chosen runs differ: their settings, and groups of seeds compared with each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from app.screens.runs.curves import DrawnCurves
from zorba_core.study.comparison import Record
from zorba_core.study.comparison.names import differing, shown
from zorba_core.study.comparison.records import flat

_FEW = 8


def differences(chosen: Sequence[Record]) -> None:
    """Settings in which the runs differ, and no others."""
    if len(chosen) < 2:
        return
    configs = [record.settings for record in chosen]
    keys = differing(configs)
    made = [flat({key: record.environment.get(key) for key in _MADE_WITH}) for record in chosen]
    with st.expander("What differs between these runs", icon=":material/difference:", expanded=len(keys) <= _FEW):
        if not keys:
            st.markdown("The settings are the same.")
        else:
            st.dataframe(
                _side_by_side(configs, keys, chosen),
                width="stretch",
                alt="Settings in which the chosen runs differ, one column per run.",
            )
        apart = differing(made)
        if apart:
            st.caption("And what they were made with:")
            st.dataframe(
                _side_by_side(made, apart, chosen),
                width="stretch",
                alt="Versions and commits in which the chosen runs differ, one column per run.",
            )


_MADE_WITH = ("zorba_core", "engine_version", "git_commit", "git_dirty", "torch", "transformers", "device", "machine")


def _side_by_side(configs: Sequence[dict], keys: Sequence[str], chosen: Sequence[Record]) -> pd.DataFrame:
    table = {key: [shown(config.get(key)) for config in configs] for key in keys}
    return pd.DataFrame(table, index=[record.name for record in chosen]).T


def group_table(drawn: DrawnCurves, baseline: Record | None) -> None:
    """Means over seeds, with their standard deviation, and how far each group is from the baseline's."""
    behind = drawn.panels[0].behind
    if drawn.asked.band is None or not any(len(runs) > 1 for runs in behind.values()):
        return
    frame, metric = summary_of_groups(behind, baseline, drawn.asked.measures), drawn.panels[0].metric
    st.dataframe(
        frame,
        hide_index=True,
        width="stretch",
        placeholder="–",
        column_config={
            "best": st.column_config.NumberColumn(f"best {metric}", format="percent"),
            "± best": st.column_config.NumberColumn("±", format="%.3f", help="Standard deviation over seeds"),
            "Δ best": st.column_config.NumberColumn(format="%+.3f", help="Mean less the baseline group's"),
            "last loss": st.column_config.NumberColumn(
                format="%.4f", help="Validation loss at a run's last evaluation"
            ),
            "± last loss": st.column_config.NumberColumn("±", format="%.4f", help="Standard deviation over seeds"),
            "Δ last loss": st.column_config.NumberColumn(format="%+.4f", help="Mean less the baseline group's"),
            "to target": st.column_config.NumberColumn(format="%.1f", help="Mean over the seeds that reached it"),
            "± to target": st.column_config.NumberColumn("±", format="%.1f", help="Standard deviation over seeds"),
            "Δ to target": st.column_config.NumberColumn(format="%+.1f", help="Mean less the baseline group's"),
            "reached": st.column_config.TextColumn(help="Seeds that reached the target"),
        },
        alt=f"Groups of seeds: mean and standard deviation of best {metric} and rounds to target.",
    )


def summary_of_groups(
    behind: dict[str, list[Record]], baseline: Record | None = None, measures: Sequence[str] = ()
) -> pd.DataFrame:
    """One row a group; with the last validation loss where a loss is among the ``measures`` drawn."""
    rows, with_loss = [], any("loss" in measure for measure in measures)
    for name, runs in behind.items():
        outcomes = [run.outcome for run in runs]
        best, reached = _known(outcomes, "best"), _known(outcomes, "to_target")
        rows.append(
            {
                "group": name,
                "runs": len(runs),
                "best": _mean(best),
                "± best": _deviation(best),
                **(_last_loss(runs) if with_loss else {}),
                "to target": _mean(reached),
                "± to target": _deviation(reached),
                "reached": f"{len(reached)} of {len(runs)}",
            }
        )
    frame = pd.DataFrame(rows)
    home = next((i for i, runs in enumerate(behind.values()) if baseline in runs), None)
    if home is not None:
        frame.insert(4, "Δ best", frame["best"] - frame["best"][home])
        if with_loss:
            at = list(frame).index("± last loss") + 1
            frame.insert(at, "Δ last loss", frame["last loss"] - frame["last loss"][home])
        frame["Δ to target"] = frame["to target"] - frame["to target"][home]
    return frame


def _last_loss(runs: Sequence[Record]) -> dict[str, float | None]:
    last = [float(losses.iloc[-1]) for run in runs if len(losses := run.evaluations["eval_loss"].dropna())]
    return {"last loss": _mean(last), "± last loss": _deviation(last)}


def _known(outcomes: Sequence[dict[str, float | None]], key: str) -> list[float]:
    return [value for outcome in outcomes if (value := outcome[key]) is not None]


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _deviation(values: Sequence[float]) -> float | None:
    return float(np.std(values, ddof=1)) if len(values) > 1 else None
