"""Runs: did it learn, how fast, and exactly what was run. Reads run folders; starts nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from app import components
from app.components import Download, Number
from app.links import linked
from zorba_core.allocation import allocation_to_bytes
from zorba_core.files import to_json
from zorba_core.plots import (
    COSTS,
    MEASURES,
    allocation_figure,
    client_order,
    learning_curves_figure,
    target_reached,
)
from zorba_core.runs import DEFAULT_FOLDER, Run, RunListing, list_runs

FIRST_RUN = "zorba train --dataset toy-reviews --clients 20 --rounds 60 --seed 0"
SHOWN_AT_FIRST = 3
STATUS = {"target": "target reached, stopped", "interrupt": "interrupted"}
MEASURE_LABELS = {"eval_accuracy": "Accuracy", "eval_loss": "Loss", "train_loss": "Training loss"}
COST_LABELS = {
    "round": "rounds",
    "forward_passes": "forward passes",
    "seconds": "seconds",
    "scalars_up": "numbers sent",
}


def page() -> None:
    st.title("Does it learn?", anchor=False)
    st.markdown(
        "Fine-tuning runs on this machine: forward passes only, each client training its own blocks. Pick runs in the "
        "table to lay their curves over each other."
    )
    folder = runs_folder()
    listing = _listing(str(folder), _signature(folder))
    _problems(listing.problems)
    if not listing.runs:
        _nothing_yet(folder)
        return
    chosen = _pick(listing.runs)
    if not chosen:
        st.info("Pick one or more runs in the table to see their curves.", icon=":material/check_box:")
        return
    _curves(chosen)
    _differences(chosen)
    st.divider()
    _one_run(chosen)


def runs_folder() -> Path:
    """``ZORBA_RUNS``, or artifacts/runs of this checkout."""
    named = os.environ.get("ZORBA_RUNS")
    return Path(named) if named else Path(__file__).resolve().parents[2] / DEFAULT_FOLDER


@st.cache_resource(max_entries=4, show_spinner="Reading runs …")
def _listing(folder: str, signature: tuple) -> RunListing:
    """The runs of a folder, read again when ``signature`` says that a file changed."""
    del signature  # part of the cache's key only
    return list_runs(folder)


def _signature(folder: Path) -> tuple:
    if not folder.is_dir():
        return ()
    seen = []
    for entry in os.scandir(folder):
        if entry.is_dir():
            stats = [(file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in os.scandir(entry.path)]
            seen.append((entry.name, *sorted(stats)))
    return tuple(sorted(seen))


def _problems(problems: Sequence[str]) -> None:
    if not problems:
        return
    some = "1 folder is no readable run" if len(problems) == 1 else f"{len(problems)} folders are no readable runs"
    st.warning(
        f"**{some}; the others are shown.**\n\n" + "\n".join(f"- {components.plain(line)}" for line in problems[:10]),
        icon=":material/folder_off:",
    )


def _nothing_yet(folder: Path) -> None:
    with st.container(border=True):
        st.markdown("##### No runs yet")
        st.markdown(
            "A first run needs no data and no download. In a terminal, in this checkout, with its environment active:"
        )
        st.code(FIRST_RUN, language="bash")
        st.caption(
            f"Runs appear here when their folder is in {components.plain(_short(folder))}. Reload to look again."
        )


def _short(folder: Path) -> str:
    try:
        return str(folder.relative_to(Path(__file__).resolve().parents[2]))
    except ValueError:
        return str(folder)


def _pick(runs: Sequence[Run]) -> list[Run]:
    event = st.dataframe(
        pd.DataFrame([_row(run) for run in runs]),
        key="runs_table",
        on_select="rerun",
        selection_mode="multi-row",
        selection_default={"selection": {"rows": list(range(min(SHOWN_AT_FIRST, len(runs))))}},
        hide_index=True,
        width="stretch",
        height="auto" if len(runs) <= 8 else 320,
        placeholder="–",
        column_config={
            "best": st.column_config.NumberColumn("best accuracy", format="percent"),
            "rounds": st.column_config.NumberColumn("rounds", help="Rounds done"),
            "to target": st.column_config.NumberColumn("to target", help="Rounds until the target was first reached"),
            "Λ": st.column_config.NumberColumn(format="%.3g", help="Convergence bias of the allocation"),
            "blocks": st.column_config.NumberColumn(help="Activated blocks over all clients"),
            "VRAM (GiB)": st.column_config.NumberColumn(format="%.2f", help="All clients together, by the VRAM model"),
        },
        alt="Runs, newest first. Select rows to draw their curves.",
    )
    return [runs[row] for row in event["selection"]["rows"] if row < len(runs)]


def _row(run: Run) -> dict[str, Any]:
    accuracy = run.evaluations["eval_accuracy"]
    reached = target_reached(run)
    return {
        "run": run.name,
        "dataset": run.config.get("dataset"),
        "model": run.config.get("model"),
        "solver": _solver(run),
        "seed": run.config.get("seed"),
        "best": float(accuracy.max()) if len(accuracy) else None,
        "to target": None if reached is None else int(reached["round"]),
        "rounds": int(run.metrics["round"].max()) if len(run.metrics) else 0,
        "blocks": run.allocation.total_blocks,
        "Λ": run.allocation.bias_lambda,
        "VRAM (GiB)": _vram_gib(run),
        "status": _status(run),
    }


def _status(run: Run) -> str:
    if not run.finished:
        return "unfinished"
    return STATUS.get(str(run.summary.get("stopped_by")), "finished")


def _solver(run: Run) -> str | None:
    allocation = run.config.get("allocation")
    return allocation.get("solver") if isinstance(allocation, dict) else None


def _vram_gib(run: Run) -> float | None:
    vram = run.summary.get("vram_gib")
    total = vram.get("total") if isinstance(vram, dict) else None
    return float(total) if isinstance(total, int | float) else None


def _curves(chosen: Sequence[Run]) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.markdown("##### Learning curves", width="stretch")
        measure = linked(
            st.segmented_control,
            "Measure",
            list(MEASURE_LABELS),
            required=True,
            format_func=MEASURE_LABELS.get,
            key="measure",
            label_visibility="collapsed",
        )
        cost = linked(
            st.selectbox,
            "against",
            list(COST_LABELS),
            format_func=lambda name: f"against {COST_LABELS[name]}",
            key="cost",
            label_visibility="collapsed",
            width=220,
        )
    components.figure(
        learning_curves_figure(chosen, measure=measure, cost=cost, palette=components.palette()),
        key="curves_plot",
        name="zorba-runs",
        alt=f"{MEASURES[measure]} against {COSTS[cost].lower()} for {len(chosen)} runs: "
        + "; ".join(f"{run.name} {_outcome(run)}" for run in chosen[:6]),
    )


def _outcome(run: Run) -> str:
    reached, accuracy = target_reached(run), run.evaluations["eval_accuracy"]
    if reached is not None:
        return f"reached its target in round {int(reached['round'])}"
    return f"at best {accuracy.max():.1%}" if len(accuracy) else "not evaluated yet"


def _differences(chosen: Sequence[Run]) -> None:
    if len(chosen) < 2:
        return
    flat = [_flat(run.config) for run in chosen]
    keys = sorted({key for config in flat for key in config})
    table = {
        key: [_shown(config.get(key)) for config in flat]
        for key in keys
        if len({to_json(config.get(key)) for config in flat}) > 1 and not key.endswith("sha256")
    }
    with st.expander("What differs between these runs", icon=":material/difference:", expanded=len(table) <= 8):
        if not table:
            st.markdown("Nothing that was asked for: the settings are the same.")
            return
        st.dataframe(
            pd.DataFrame(table, index=[run.name for run in chosen]).T,
            width="stretch",
            alt="Settings in which the chosen runs differ, one column per run.",
        )


def _one_run(chosen: Sequence[Run]) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.subheader("What was run", anchor=False, width="stretch")
        run = chosen[0]
        if len(chosen) > 1:
            by_name = {run.name: run for run in chosen}
            run = by_name[st.selectbox("Run", list(by_name), key="one_run", label_visibility="collapsed", width=340)]
    _dirty(run)
    _headline(run)
    left, right = st.columns([0.62, 0.38], gap="medium")
    with left:
        st.markdown("##### Who trained what")
        allocation = run.allocation
        components.figure(
            allocation_figure(
                allocation.A_MN,
                order_N=client_order(allocation.A_MN, allocation.blocks_held_N, "blocks"),
                palette=components.palette(),
            ),
            key="run_allocation",
            name=f"{run.name}-allocation",
            alt=f"Which of {allocation.num_blocks} blocks each of {allocation.num_clients} clients trained, and how "
            f"many clients trained each block: {allocation.min_popularity} to {int(allocation.popularity_M.max())}.",
        )
    with right:
        st.markdown("##### Made with")
        st.dataframe(
            pd.DataFrame(_provenance(run), columns=["what", "value"]),
            hide_index=True,
            width="stretch",
            height=330,
            alt="Versions, commit, device and seeds of the run.",
        )
    components.downloads(
        [
            Download(
                "Metrics (CSV)",
                f"{run.name}-metrics.csv",
                "text/csv",
                lambda: run.metrics.to_csv(index=False).encode(),
                "One row a round.",
            ),
            Download(
                "Config (JSON)",
                f"{run.name}-config.json",
                "application/json",
                lambda: to_json(run.config, indent=1).encode(),
                "What was asked for.",
            ),
            Download(
                "Allocation (JSON)",
                f"{run.name}-allocation.json",
                "application/json",
                lambda: allocation_to_bytes(run.allocation, "json"),
                "Block ids of each client.",
            ),
        ],
        key="run_files",
    )


def _dirty(run: Run) -> None:
    if run.environment.get("git_dirty"):
        st.warning(
            "This run was made from a checkout with uncommitted changes, so its commit alone does not reproduce it.",
            icon=":material/edit_note:",
        )
    if not run.finished:
        st.info(
            "This run is going on, or was cut short: its numbers are those of the last evaluation. Reload to look "
            "again.",
            icon=":material/hourglass_top:",
        )


def _headline(run: Run) -> None:
    accuracy, reached = run.evaluations["eval_accuracy"], target_reached(run)
    allocation, target = run.allocation, run.config.get("target")
    vram = _vram_gib(run)
    numbers = [
        Number(
            "Best accuracy",
            f"{accuracy.max():.1%}" if len(accuracy) else "none yet",
            "Of the model all clients share, on rows that no client trains on.",
            f"started at {accuracy.iloc[0]:.1%}" if len(accuracy) else None,
        ),
        Number(
            "Rounds to target",
            "not reached" if reached is None else f"{int(reached['round'])}",
            "The first evaluation at which accuracy was at least the target.",
            f"target {target:.0%}" if isinstance(target, int | float) else None,
        ),
        Number(
            "Activated blocks",
            f"{allocation.total_blocks}",
            r"$\sum_m \sum_n a_{m,n}$ over all clients.",
            f"of {allocation.num_blocks * allocation.num_clients}",
        ),
        Number("Λ, convergence bias", f"{allocation.bias_lambda:.3g}", r"$\Lambda = \sum_n 1 / \underline{c}_n^2$."),
        Number(
            "VRAM, all clients",
            "unknown" if vram is None else f"{vram:.2f} GiB",
            "By the paper's VRAM model, for this run's batch and length.",
        ),
    ]
    if len(run.metrics):
        last = run.metrics.iloc[-1]
        numbers.append(
            Number(
                "Training time",
                _duration(float(last["seconds"])),
                "Seconds in rounds; evaluations are not counted.",
                f"{int(last['scalars_up']):,} numbers sent up",
            )
        )
    components.numbers(numbers)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def _provenance(run: Run) -> list[tuple[str, str]]:
    environment, config = _flat(run.environment), _flat(run.config)
    return [("folder", _short(run.path))] + [
        (key, _shown(value)) for facts in (environment, config) for key, value in facts.items()
    ]


def _flat(content: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _shown(value: Any) -> str:
    if value is None:
        return "not recorded"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 120 else f"{text[:117]}…"


page()
