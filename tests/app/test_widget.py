"""``fleet.explore()``: what the browser sends and the kernel answers, and the component in a real browser."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("anywidget", reason="needs anywidget, of the extra notebooks")

from app.explore.widget import Explorer
from zorba_core import installed
from zorba_core.allocation import Status, solve
from zorba_core.errors import InfeasibleError, InvalidInputError, MissingDataError
from zorba_core.fleet import Fleet
from zorba_core.vram import ModelSpec, Workload

FLEET = Fleet.uniform("opt-125m", 12, seed=3, workload=Workload(batch_size=4))
# The page of a notebook, with the kernel's side of the connection in `kernel`.
SHOW = """async ([script, state]) => {
    const heard = [], url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
    const send = async (message) => {
        state.data = await kernel(message);
        heard.forEach((act) => act());
    };
    const model = { get: (name) => state[name], on: (_, act) => heard.push(act), off: () => {}, send };
    window.widget ??= (await import(url)).default();
    window.widget.render({ model, el: document.body });
}"""


def send(view: Explorer, event: str, value: object) -> dict:
    """What a message of the browser does in the kernel; the data that go back."""
    view._handle_custom_msg({"event": event, "value": value}, [])
    return view.data


def release(view: Explorer, revision: int = 1, origin: str | None = None, **fields: object) -> dict:
    origin = view.data["origin"] if origin is None else origin
    return send(view, "state", {"origin": origin, "revision": revision, "fields": {**view.data["fields"], **fields}})


def test_the_fleet_is_shown_as_it_is_and_a_release_changes_what_python_reads_back():
    view = FLEET.explore()
    assert (view.fleet.capacity_N_gib == FLEET.capacity_N_gib).all()
    assert (view.fleet.budget_N == FLEET.budget_N).all()
    data = release(view, total=45, follow="exact", bars=[[2, 1.0]])
    assert (data["revision"], view.total, view.fleet.names) == (1, 45, FLEET.names)
    assert np.flatnonzero(view.fleet.capacity_N_gib != FLEET.capacity_N_gib).tolist() == [2]
    assert view.solution.optimal
    assert view.solution.value == pytest.approx(solve(view.fleet, "exact", total=45).value)


def test_the_kernel_answers_with_the_cores_solutions_until_none_is_missing():
    view = FLEET.explore()
    data, deadline = release(view, total=40), time.monotonic() + 300
    while data["waiting"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
        data = send(view, "ask", 1)
    assert data["answers"]["exact"]["lambda"] == pytest.approx(solve(FLEET, "exact", total=40).value)


def test_cells_changed_by_hand_are_in_the_solution_or_named():
    view = FLEET.explore()
    release(view, total=50)
    before = view.solution.allocation.A_MN
    block, client = np.argwhere(before & (before.sum(0) > 1))[0]
    release(view, 2, flips=f"{block}.{client}")
    changed, (was,) = view.solution, np.argwhere(before != view.solution.allocation.A_MN)
    assert was.tolist() == [block, client]
    assert changed.status is Status.FEASIBLE
    assert changed.lower_bound <= changed.value == changed.allocation.bias_lambda
    release(view, 3, flips="_".join(f"{block}.{client}" for block in np.flatnonzero(before[:, client])))
    with pytest.raises(InfeasibleError, match=f"Without a block: client {client}"):
        _ = view.solution


def test_a_file_becomes_the_fleet_and_a_release_from_before_it_does_not_bring_the_former_one_back():
    view = FLEET.explore()
    former = view.data["origin"]
    send(view, "file", {"text": "1 x 20, 1.5"})
    release(view, origin=former, clients=5, shape="uniform")
    assert view.fleet.num_clients == 21
    data = send(view, "file", {"text": "many"})
    assert "The former fleet stays." in data["message"]
    assert view.fleet.num_clients == 21


def test_a_fleet_that_the_page_cannot_show_is_refused():
    with pytest.raises(InvalidInputError, match="this one is of mine: use"):
        Fleet.uniform(ModelSpec("mine", 6, 64, 4, 10**6), 5).explore()
    with pytest.raises(InvalidInputError, match="batch is 1000"):
        Fleet.uniform("opt-125m", 5, workload=Workload(batch_size=1000)).explore()


def test_without_the_extra_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setattr(installed, "missing_packages", lambda *modules: list(modules))
    with pytest.raises(MissingDataError, match="needs anywidget, not installed here: pip install '"):
        FLEET.explore()


def test_a_notebook_needs_no_streamlit_and_a_module_called_app_beside_it_is_no_obstacle(tmp_path):
    (tmp_path / "app.py").write_text("raise SystemExit('the wrong app')")
    code = (
        "import sys, zorba_core as z; sys.modules['streamlit'] = None; print(z.Fleet.uniform('opt-125m', 5).explore())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Explorer(5 clients of opt-125m: balanced")


@pytest.mark.browser
@pytest.mark.slow
def test_a_drag_in_the_cell_shows_the_cores_lambda_and_reaches_python_and_a_second_view_is_the_only_one(browser):
    view, page = FLEET.explore(), browser.new_page(viewport={"width": 1000, "height": 1200})
    page.expose_function("kernel", lambda message: send(view, message["event"], message["value"]))
    page.evaluate(SHOW, [view._esm, {"html": view.html, "data": view.data}])
    page.wait_for_selector(".explore[data-answered='0']")
    former, box = view.total, page.locator(".point").bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 60, steps=5)
    page.mouse.up()
    page.wait_for_selector(".explore[data-answered='1']")
    assert view.total != former
    words = page.locator(".point").get_attribute("aria-valuetext")
    assert float(re.search(r"Lambda ([\d.]+)", words)[1]) == pytest.approx(view.solution.value, rel=0.01)
    page.get_by_label("exact").check()
    page.wait_for_selector(".explore[data-answered='2']")
    page.wait_for_function(
        "() => document.body.firstChild.shadowRoot.querySelector('.methods .exact').textContent.includes('proven')"
    )
    exact = solve(view.fleet, "exact", total=view.total)
    assert view.solution.value == pytest.approx(exact.value)
    shown = page.locator(".methods .exact td").first.inner_text()
    assert float(shown) == pytest.approx(exact.value, rel=0.01)
    page.evaluate(SHOW, [view._esm, {"html": view.html, "data": view.data}])
    page.wait_for_selector(".explore[data-answered='2']")
    assert page.locator(".explore").count() == 1
    page.close()
