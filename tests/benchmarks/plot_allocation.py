"""The figure of what allocation costs, from the benchmark's JSON:

python tests/benchmarks/plot_allocation.py artifacts/benchmarks/allocation.json artifacts/benchmarks/allocation.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import plotly.graph_objects as go

from zorba_core.files import read_json, write_bytes
from zorba_core.plots.pictures import picture_bytes

# Okabe-Ito colours; a marker of its own for each solver, so that colour is not the only difference.
STYLE = {
    "lexicographic": ("#D55E00", "square", "the paper: Dinic + Algorithm 1"),
    "exact": ("#0072B2", "diamond", "exact: proof at N=50, bound above"),
    "two-level": ("#009E73", "circle", "two-level"),
    "balanced": ("#000000", "triangle-up", "balanced"),
}
DASHES = {12: "dot", 48: "solid"}


def figure(result: dict) -> go.Figure:
    rows = [row for row in result["scaling"] if row["total"] is None]
    chart = go.Figure()
    for solver, (colour, symbol, name) in STYLE.items():
        for num_blocks, dash in DASHES.items():
            points = sorted(
                (row["num_clients"], row["cpu_s"])
                for row in rows
                if row["solver"] == solver and row["num_blocks"] == num_blocks
            )
            chart.add_scatter(
                x=[clients for clients, _ in points],
                y=[seconds for _, seconds in points],
                name=f"{name}, M={num_blocks}",
                mode="lines+markers",
                line={"color": colour, "dash": dash},
                marker={"symbol": symbol, "size": 9},
            )
    machine = result["provenance"]
    chart.update_layout(
        template="plotly_white",
        title={
            "text": "Cost of one allocation"
            f"<br><sup>{machine['processor']}, one thread; budgets U{{1..M}}, seed {machine['seed']}</sup>"
        },
        legend={"orientation": "h", "y": -0.14, "entrywidth": 0.48, "entrywidthmode": "fraction"},
        margin={"l": 70, "r": 20, "t": 70, "b": 60},
    )
    chart.update_xaxes(type="log", title="clients N", dtick=1)
    chart.update_yaxes(type="log", title="processor seconds", dtick=1)
    return chart


def main() -> None:
    source, target = map(Path, sys.argv[1:])
    chart = figure(read_json(source))
    write_bytes(target, picture_bytes(chart.update_layout(width=900, height=660), target.suffix.lstrip(".")))


if __name__ == "__main__":
    main()
