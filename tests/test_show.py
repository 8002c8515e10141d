"""What a fleet, a solution and a front show of themselves, as text and in a notebook."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import zorba_core as zorba
from zorba_core import show

FLEET = zorba.Fleet.uniform("opt-125m", clients=50, seed=0)
PLAN = zorba.solve(FLEET, solver="exact", total=265)
FRONT = zorba.sweep(FLEET, 100, seed=0)
SHOWN = [FLEET, PLAN, FRONT, FRONT.to_frame(), zorba.Fleet.gpus("opt-1.3b", 3, mix="steam")]


def drawn(shown, tag: str) -> list[ET.Element]:
    return [element for element in ET.fromstring(shown._repr_html_()).iter() if element.tag == tag]


def test_the_text_is_one_line_that_says_what_matters():
    assert repr(FLEET) == "Fleet(opt-125m: 50 clients, 0.59 to 1.9 GiB, room for 314 of 600 blocks)"
    assert re.fullmatch(r"Solution\(exact: Λ 0\.0809, proven, 265 of 600 blocks, \d+\.\d\d s\)", repr(PLAN))
    least = zorba.solve(FLEET, total=265)
    assert f"Λ {least.value:.3g}, not proven, bound {least.lower_bound:.3g}, 265 of 600" in repr(least)
    assert re.fullmatch(r"Front\(\d+ of 100 points: Λ \S+ with \d+% of all VRAM to Λ .*, knee Λ .*%\)", repr(FRONT))
    assert repr(FRONT) == repr(FRONT.to_frame())
    too_small = zorba.Fleet(("a", "b"), np.array([0.1, 2.0]) * zorba.GIB, FLEET.model)
    assert repr(too_small).endswith("room for 12 of 24 blocks, 1 too small for one)")


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: type(shown).__name__)
def test_the_picture_is_small_and_takes_the_colour_of_the_page(shown):
    html = shown._repr_html_()
    assert len(html) < 20_000
    (svg,) = drawn(shown, "svg")
    assert svg.get("aria-label") == repr(shown)
    colours = set(re.findall(r'(?:fill|stroke)="([^"]+)"', html))
    assert colours <= {"currentColor", "none", show._BLUE}


def test_the_bars_count_clients_and_the_cells_are_those_of_the_matrix():
    heights = [float(bar.get("height")) for bar in drawn(FLEET, "rect")]
    counts = np.bincount(FLEET.budget_N)
    assert np.array(heights) == pytest.approx(counts[counts > 0] / counts.max() * max(heights), abs=0.06)
    cells = "".join(path.get("d") for path in drawn(PLAN, "path") if path.get("fill") == show._BLUE)
    assert cells.count("z") == PLAN.allocation.total_blocks == 265


def test_the_curve_falls_from_left_to_right_and_a_large_matrix_is_averaged():
    (line,) = drawn(FRONT, "polyline")
    left, top = np.array([point.split(",") for point in line.get("points").split()], float).T
    assert len(left) == FRONT.on_front_E.sum()
    assert (np.diff(left) >= 0).all()
    assert (np.diff(top) >= 0).all()  # downwards: a lower Λ
    large = zorba.solve(zorba.Fleet.uniform("opt-1.3b", 2000))
    assert len(large._repr_html_()) < 80_000
    opacity = {path.get("fill-opacity") for path in drawn(large, "path")}
    assert {"0.25", "0.5", "0.75", "1"} <= opacity


def test_a_part_of_a_front_is_an_ordinary_table_and_print_shows_the_columns():
    table = zorba.front(FLEET, 100)
    assert type(table[table["on_front"]]).__name__ == type(table.head()).__name__ == "DataFrame"
    assert "total_blocks" in str(table)
    assert len(str(table).splitlines()) < 15


def test_a_picture_needs_no_plotting_library():
    code = "import sys, zorba_core as z; z.Fleet.uniform('opt-125m')._repr_html_(); assert 'plotly' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
