from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from zorba_core.allocation import PAPER_SCENARIOS, sweep
from zorba_core.errors import InvalidInputError
from zorba_core.fleet import Fleet
from zorba_core.plots import (
    DARK,
    LIGHT,
    Stairs,
    allocation_figure,
    clients_figure,
    confusion_figure,
    front_figure,
    learning_curves_figure,
    stairs_figure,
)
from zorba_core.plots.allocation import client_order
from zorba_core.plots.front import METHOD_STYLES
from zorba_core.plots.theme import log_axis, log_ticks
from zorba_core.vram import Workload, model_spec

MODEL, WORKLOAD = model_spec("opt-125m"), Workload()


@pytest.fixture(scope="module")
def front():
    return sweep(Fleet.uniform(MODEL, 10, workload=WORKLOAD), 200, tau_mode="vector", seed=0)


def trace(figure, name):
    return next(trace for trace in figure.data if trace.name == name)


def test_along_the_front_more_vram_means_less_bias(front):
    order = front.order_F
    assert len(order) > 5
    assert (np.diff(front.vram_ratio_E[order]) > 0).all()
    assert (np.diff(front.bias_lambda_E[order]) < 0).all()


def test_every_front_has_a_dash_and_a_marker_and_the_papers_scenarios_their_names(front):
    figure = front_figure({"one": front, "two": front, "three": front}, references=PAPER_SCENARIOS, knee=True)
    *fronts, marks = figure.data[:4]
    assert list(figure.data[-1].y) == [front.bias_lambda_E[front.knee]]
    assert len({(part.line.dash, part.marker.symbol) for part in fronts}) == 3
    assert list(zip(marks.x, marks.y, strict=True)) == [(0.71, 0.50), (0.86, 0.50), (0.86, 0.95)]
    assert list(marks.text) == ["SC1", "SC2", "SC3"]


def test_a_logarithmic_axis_has_some_ticks_and_room_for_them():
    for low, decades in itertools.product((-12.3, -1.0, 0.0, 2.7), (0.2, 0.7, 1.0, 2.5, 4.0, 9.0, 20.0)):
        ticks = log_ticks(low, low + decades)
        inside = [tick for tick in ticks if low - 0.02 <= np.log10(tick) <= low + decades + 0.02]
        assert 1 <= len(inside) <= 12
        assert len({f"{tick:g}" for tick in inside}) == len(inside)


def test_ticks_read_as_numbers():
    assert {"0.5", "1", "2", "5", "10"} <= set(log_axis("Λ", [0.4, 11.0])["ticktext"])


def test_the_matrix_is_drawn_in_the_order_asked_for(front):
    allocation = front.allocation(front.knee)
    order_N = client_order(allocation.A_MN)
    assert (np.diff(allocation.blocks_held_N[order_N]) <= 0).all()
    figure = allocation_figure(allocation.A_MN, order_N=order_N)
    np.testing.assert_array_equal(figure.data[0].z, allocation.A_MN[:, order_N])
    np.testing.assert_array_equal(figure.data[1].x, allocation.popularity_M)


def test_the_stairs_of_vram_follow_their_clients(front):
    A_MN = front.allocation(front.knee).A_MN
    capacity, used = np.arange(10.0, 20.0), np.arange(10.0)
    order_N = np.argsort(-capacity)
    figure = allocation_figure(A_MN, used_N_gib=used, capacity_N_gib=capacity, parameters_gib=0.5, order_N=order_N)
    names, inner = [f"client {n}" for n in range(9, -1, -1)], slice(1, -1)  # the ends widen the first and last step
    assert list(figure.layout.xaxis.categoryarray[inner]) == list(trace(figure, "free").x[inner]) == names
    np.testing.assert_array_equal(trace(figure, "free").y[inner], capacity[::-1])
    np.testing.assert_array_equal(trace(figure, "blocks").y[inner], used[::-1])
    np.testing.assert_array_equal(trace(figure, "free").customdata[inner], used[::-1])  # beside y in the hover text


def test_a_front_too_short_for_a_knee_is_drawn_without_one(front):
    short = sweep(Fleet.uniform(MODEL, 10, workload=WORKLOAD), 2, seed=0)
    assert short.knee is None
    assert len(front_figure({"short": short}, knee=True).data) == 1


def run(name, accuracy, target=0.75):
    metrics = pd.DataFrame({"round": range(len(accuracy)), "eval_accuracy": accuracy, "train_loss": 1.0})
    request = SimpleNamespace(settings=SimpleNamespace(target=target))
    return SimpleNamespace(path=Path(name), metrics=metrics, request=request)


def test_a_curve_keeps_its_colour_and_shows_the_rounds_that_were_evaluated():
    figure = learning_curves_figure([run("a", [0.5, None, 0.74]), run("b", [0.5, 0.6])])
    assert [list(part.x) for part in figure.data] == [[0, 2], [0, 1]]
    assert [part.line.color for part in figure.data] == list(LIGHT.series[:2])
    assert [shape.y0 for shape in figure.layout.shapes] == [0.75]


def test_logarithmic_axes_reach_around_all_values_above_zero():
    runs = [run("a", [0.5, None, 0.8, 0.7]), run("b", [0.25, 0.6])]
    layout = learning_curves_figure(runs, log=True, log_x=True).layout
    assert layout.xaxis.range[0] < np.log10(1) < np.log10(3) < layout.xaxis.range[1]
    assert layout.yaxis.range[0] < np.log10(0.25) < np.log10(0.8) < layout.yaxis.range[1]
    assert layout.annotations[0].y == pytest.approx(np.log10(0.75))
    assert {"30%", "50%"} <= set(layout.yaxis.ticktext)
    assert learning_curves_figure([run("a", [0.5])], log_x=True).layout.xaxis.type == "log"  # no round above 0


def test_a_run_without_a_target_has_no_line():
    assert not learning_curves_figure([run("a", [0.5, 0.9], target=None)]).layout.shapes


def test_an_unknown_measure_is_refused_with_the_known_ones():
    with pytest.raises(InvalidInputError, match="choose one of"):
        learning_curves_figure([run("a", [0.5])], measure="f1")


def curve(name, strong=False, **facts):
    return Stairs(name, np.array([10.0, 20.0]), np.array([1.0, 0.5]), METHOD_STYLES[name], strong=strong, **facts)


def test_a_method_keeps_its_colour_whatever_else_is_drawn():
    alone = stairs_figure([curve("paper", strong=True)], lambda_range=(0.1, 10))
    among = stairs_figure([curve("bound", is_bound=True), curve("paper", strong=True)], lambda_range=(0.1, 10))
    assert alone.data[0].line.color == among.data[1].line.color != among.data[0].line.color


def test_stairs_never_promise_more_than_was_reached():
    figure = stairs_figure([curve("bound", is_bound=True), curve("paper", strong=True)], lambda_range=(0.1, 10))
    assert [part.line.shape for part in figure.data] == [
        "vh",
        "hv",
    ]  # down before a known bound, down at a reached point
    assert tuple(figure.layout.yaxis.range) == pytest.approx((-1, 1))


def contrast(first: str, second: str) -> float:
    """WCAG 2 contrast ratio of two #rrggbb colours."""

    def luminance(color):
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=lambda palette: palette.name)
def test_text_and_marks_stand_out_from_the_paper(palette):
    assert contrast(palette.text, palette.paper) >= 7
    assert contrast(palette.muted, palette.paper) >= 4.5
    for mark in (palette.front, palette.selected, *palette.series):
        assert contrast(mark, palette.paper) >= 3, mark


def test_figures_need_neither_torch_nor_streamlit():
    code = "import sys, zorba_core.plots; print({'torch', 'streamlit'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_figures_are_made_without_plotlys_check_and_pass_it(front):
    A_MN, gib = front.allocation(front.knee).A_MN, np.arange(1.0, 11.0)
    drawn = [
        front_figure({"one": front}, knee=True, references=PAPER_SCENARIOS),
        allocation_figure(A_MN, used_N_gib=gib, capacity_N_gib=gib),
        stairs_figure(
            [curve("bound", is_bound=True), curve("paper", strong=True)],
            chosen=(10.0, 1.0, "the point"),
            lambda_range=(0.1, 10),
        ),
        learning_curves_figure([run("a", [0.5, 0.9])]),
        confusion_figure(np.eye(2), ["a", "b"]),
        clients_figure([{"client": "a", "accuracy": 0.5, "accuracy_interval": (0.4, 0.6), "rows": 3}], 0.5),
    ]
    for figure in drawn:
        go.Figure(figure.to_dict())  # raises where a property or a value is wrong
        assert '":null' not in figure.to_json()  # a browser leaves a figure blank whose marker has the line null
