"""One run in detail: its numbers, who trained what, and all its settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from app.screens.runs import use
from app.screens.train.measures import measured_bytes
from app.screens.train.processes import being_written
from app.screens.train.words import duration, size
from app.shared import components
from app.shared.components import Download, Number
from app.shared.escape import as_code
from app.shared.folders import short
from app.shared.links import forget_unless, linked
from zorba_core.allocation import allocation_to_bytes
from zorba_core.engine import ENGINE_VERSION
from zorba_core.files import to_json
from zorba_core.plots import allocation_figure, client_order
from zorba_core.study.comparison import Record, metric_of, target_reached
from zorba_core.study.comparison.names import shown
from zorba_core.study.comparison.records import flat


def draw(chosen: Sequence[Record]) -> None:
    """A choice of one of the runs, and that run."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        st.markdown("## One run", width="stretch")
        record = chosen[0]
        if len(chosen) > 1:
            by_name = {record.name: record for record in chosen}
            forget_unless("one_run", by_name)
            name = linked(st.selectbox, "Run", list(by_name), key="one_run", label_visibility="collapsed", width=340)
            record = by_name[name]
        if st.button("Provenance", icon=":material/fact_check:", key="open_provenance"):
            _provenance(record)
    _warnings(record)
    components.numbers(_headline(record))
    use.draw(record)
    if record.allocation is not None:
        st.markdown("## Who trained what")
        allocation = record.allocation
        components.figure(
            allocation_figure(
                allocation.A_MN,
                order_N=client_order(allocation.A_MN, allocation.blocks_held_N, "blocks"),
                palette=components.palette(),
            ),
            key="run_allocation",
            name=f"{record.name}-allocation",
            alt=f"Which of {allocation.num_blocks} blocks each of {allocation.num_clients} clients trained, and how "
            f"many clients trained each block: {allocation.min_popularity} to {int(allocation.popularity_M.max())}.",
        )
    components.downloads(_files(record), key="run_files")


def is_dirty(record: Record) -> bool:
    return record.environment.get("git_dirty") is True


def _warnings(record: Record) -> None:
    if is_dirty(record):
        st.warning(
            "This run was made from a checkout with uncommitted changes, so its commit alone does not reproduce it.",
            icon=":material/edit_note:",
        )
    engine = record.environment.get("engine_version")
    if engine is not None and engine != ENGINE_VERSION:
        st.caption(
            f":material/history: Made by engine version {components.plain(str(engine)[:9])}; this is {ENGINE_VERSION}. "
            "The curves can be compared; making the run again gives other bits."
        )
    if record.status != "unfinished" or record.path is None:
        return
    if being_written(record.path):
        st.info(
            "This run is in progress; its numbers are those of the last evaluation and update automatically.",
            icon=":material/hourglass_top:",
        )
    else:
        st.info(
            "This run was cut short: its numbers are those of the last evaluation. The Train page resumes it, or the "
            f"command {as_code(f'zorba resume {short(record.path)}')}.",
            icon=":material/pause_circle:",
        )


def _headline(record: Record) -> list[Number]:
    accuracy, reached, outcome = record.evaluations["eval_accuracy"], target_reached(record), record.outcome
    target, allocation, metric = record.config.get("target"), record.allocation, metric_of(record)
    numbers = [
        Number(
            f"Best {metric}",
            f"{accuracy.max():.1%}" if len(accuracy) else "none yet",
            "Of the model all clients share, on rows that no client trains on.",
            f"started at {accuracy.iloc[0]:.1%}" if len(accuracy) else None,
        ),
        Number(
            "Rounds to target",
            "not reached" if reached is None else f"{int(reached['round'])}",
            f"The first evaluation at which {metric} was at least the target.",
            f"target {target:.0%}" if isinstance(target, int | float) else None,
        ),
    ]
    if allocation is not None:
        numbers += [
            Number(
                "Activated blocks",
                f"{allocation.total_blocks}",
                r"$\sum_m \sum_n a_{m,n}$ over all clients.",
                f"of {allocation.num_blocks * allocation.num_clients}",
            ),
            Number(
                "Λ, convergence bias", f"{allocation.bias_lambda:.3g}", r"$\Lambda = \sum_n 1 / \underline{c}_n^2$."
            ),
        ]
    if outcome["vram"] is not None:
        numbers.append(
            Number(
                "VRAM by the paper's model",
                f"{outcome['vram']:.2f} GiB",
                "By the paper's VRAM model, for this run's batch and length. Below it what was measured: the memory of "
                "the process, which plays all clients, above the model's.",
                _measured(record),
            )
        )
    if outcome["seconds"]:
        numbers.append(
            Number(
                "Training time",
                duration(outcome["seconds"]),
                "Seconds in rounds; evaluations are not counted.",
                None if outcome["bytes"] is None else f"{size(outcome['bytes'])} sent",
            )
        )
    return numbers


def _measured(record: Record) -> str | None:
    grown = measured_bytes(record.summary)
    return None if grown is None else f"took {size(grown)}"


@st.dialog("Provenance", width="medium", position="right")
def _provenance(record: Record) -> None:
    st.markdown(f"## {components.plain(record.name)}")
    if is_dirty(record):
        st.warning("Uncommitted changes: the commit below is not all that made this run.", icon=":material/edit_note:")
    elif record.environment.get("git_commit"):
        st.success("Made from a clean checkout of the commit below.", icon=":material/verified:")
    else:
        st.info("No commit was recorded: it was not made from a checkout.", icon=":material/info:")
    environment = {key: value for key, value in record.environment.items() if key not in ("preflight", "data")}
    _facts("Made with", flat(environment))
    _facts("Data", flat(_object(record.environment, "data")))
    checks = _object(record.environment, "preflight").get("checks")
    if isinstance(checks, list) and checks and all(isinstance(check, dict) for check in checks):
        st.markdown("**Checked before the first round**")
        frame = pd.DataFrame(
            [{key: check.get(key) for key in ("name", "measured", "limit", "passed")} for check in checks]
        )
        st.dataframe(frame, hide_index=True, width="stretch", alt="What was measured before the first round.")
    _facts("Asked for", record.settings)
    if record.path is not None:
        st.caption(f"Folder: {as_code(short(record.path))}")


def _facts(title: str, facts: dict[str, Any]) -> None:
    if not facts:
        return
    st.markdown(f"**{title}**")
    st.dataframe(
        pd.DataFrame([(key, shown(value)) for key, value in facts.items()], columns=["what", "value"]),
        hide_index=True,
        width="stretch",
        alt=f"{title}: names and values.",
    )


def _object(content: dict[str, Any], key: str) -> dict[str, Any]:
    value = content.get(key)
    return value if isinstance(value, dict) else {}


def _files(record: Record) -> list[Download]:
    files = [
        Download(
            "Metrics (CSV)",
            f"{record.name}-metrics.csv",
            lambda: record.metrics.to_csv(index=False).encode(),
            "One row a round.",
        ),
        Download(
            "Config (JSON)",
            f"{record.name}-config.json",
            lambda: to_json(record.config, indent=1).encode(),
            "What was asked for.",
        ),
    ]
    if record.allocation is not None:
        for kind in ("json", "npz"):
            files.append(
                Download(
                    f"Allocation ({kind.upper()})",
                    f"{record.name}-allocation.{kind}",
                    lambda kind=kind: allocation_to_bytes(record.allocation, kind),
                    "Block ids of each client." if kind == "json" else "The activation matrix A_MN.",
                )
            )
    return files
