"""The Allocation page: what it says about a matrix, and what its buttons do to it."""

from __future__ import annotations

import numpy as np
import pytest

from app.screens.allocation.steps import point_with_work
from app.shared.scenario import Scenario
from app.shared.study import study
from tests.app.shown import shown_key
from zorba_core.allocation import gamma_certificate
from zorba_core.study.greedy_steps import replay_greedy

SMALL = {"clients": "12", "vectors": "40"}
SCENARIO = Scenario(num_clients=12, num_epsilons=40)


def visit(app, **query):
    for key, value in (SMALL | query).items():
        app.query_params[key] = value
    app.run()
    app.switch_page("screens/allocation/allocation.py")
    for key, value in (SMALL | query).items():  # a change of page clears the address
        app.query_params[key] = value
    return app.run()


def texts(app) -> str:
    parts = [*app.title, *app.markdown, *app.caption, *app.warning, *app.info, *app.success, *app.error]
    return "\n".join(part.value for part in parts)


def metrics(app) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def button(app, label):
    return next(each for each in app.button if each.label.startswith(label))


def start_matrix():
    solved = study(SCENARIO)
    return solved.front.solution(solved.default_point()).allocation


def cell(active: bool, *, client_with=None) -> tuple[int, int]:
    """A cell of the start matrix that is active or not, of a client with that many blocks."""
    allocation = start_matrix()
    for block, client in np.argwhere(active == allocation.A_MN):
        if client_with is None or allocation.blocks_held_N[client] == client_with:
            return int(block), int(client)
    raise AssertionError("no such cell")


def test_it_starts_from_the_selected_points_matrix_and_says_it_is_level_with_the_solver(app):
    visit(app)
    assert not app.exception
    assert metrics(app)["Λ, convergence bias"] == f"{start_matrix().bias_lambda:.4g}"
    assert "Level with the balanced solver" in texts(app)
    assert "Nothing changed yet" in texts(app)
    assert button(app, "Start again").disabled


def test_a_link_brings_back_the_cells_changed_by_hand_and_start_again_takes_them_back(app):
    block, client = cell(False)
    visit(app, flips=f"{block}.{client}")
    assert metrics(app)["VRAM by the paper's model"] != ""
    assert "1 cell changed" in texts(app)
    edited = app.session_state["edited_allocation"][1]  # what Train starts from
    assert edited.A_MN[block, client] != start_matrix().A_MN[block, client]
    assert app.query_params["flips"] == f"{block}.{client}"
    button(app, "Start again").click().run()
    assert "Nothing changed yet" in texts(app)
    assert "edited_allocation" not in app.session_state
    assert "flips" not in app.query_params


def test_a_client_left_without_a_block_is_named_and_train_does_not_get_the_matrix(app):
    block, client = cell(True, client_with=1)
    visit(app, flips=f"{block}.{client}")
    assert "It cannot run" in texts(app)
    assert f"client-{client} would train nothing" in texts(app).replace("\\", "")
    assert metrics(app)["Λ, convergence bias"] == "∞"
    assert "edited_allocation" not in app.session_state


def test_a_client_that_holds_more_than_fits_is_named_with_its_room(app):
    most_N = study(SCENARIO).everything.problem.budget_N
    client = int(np.argmin(most_N))
    free = np.flatnonzero(~start_matrix().A_MN[:, client])[: most_N[client]]
    visit(app, flips="_".join(f"{block}.{client}" for block in free))
    assert f"have room for {most_N[client]}" in texts(app)


def test_other_solvers_get_as_many_blocks_and_their_matrix_can_be_taken_over(app):
    visit(app, view="solvers")
    assert not app.exception
    table = app.dataframe[0].value
    assert {"This matrix", "Balanced", "The paper's method", "Two-level"} <= set(table.columns)
    assert (table.nunique(axis=1) > 1).all()  # only what differs
    app.toggle(key="only_differences").set_value(False).run()
    assert len(app.dataframe[0].value) == 8
    app.segmented_control(key="against").set_value("two-level").run()
    theirs = float(app.dataframe[0].value.loc["Λ, convergence bias", "Two-level"].rstrip(" ★"))
    app.button(key="adopt").click().run()
    assert app.segmented_control(key=shown_key(app, "view")).value == "edit"
    assert float(metrics(app)["Λ, convergence bias"]) == pytest.approx(theirs, rel=1e-3)
    assert "You beat the balanced solver" in texts(app) or "Level with" in texts(app)


def test_the_exact_solver_comes_on_request_and_proves_its_answer(app):
    visit(app, view="solvers")
    app.button(key="ask_exact").click().run()
    assert not app.exception
    assert "Exact" in app.dataframe[0].value.columns
    assert "Proven optimal for Λ" in texts(app)


def test_algorithm_1_is_walked_through_step_by_step(app):
    solved = study(SCENARIO)
    point = point_with_work(solved, solved.default_point())
    replay = replay_greedy(solved.front.problem(point), seed=(0, point))
    visit(app, view="steps", point=str(point))
    assert not app.exception
    assert "Dinic's matrix" in texts(app)
    for number in range(1, 3):
        app.button(key="step_next").click().run()
        assert f"Step {number} of {len(replay.steps)}" in texts(app)
        assert f"**Block {replay.steps[number - 1].block}** holds back" in texts(app)
        assert app.query_params["step"] == str(number)
    app.button(key="step_last").click().run()
    assert "this is the paper's allocation" in texts(app)
    assert app.button(key="step_next").disabled
    app.button(key="step_back").click().run()
    assert f"Step {len(replay.steps) - 1} of" in texts(app)


def test_a_point_without_work_for_algorithm_1_leads_to_one_with(app):
    front = study(SCENARIO).front
    idle = [int(p) for p in np.flatnonzero(front.on_front_E) if front.budget_EN[p].sum() % front.num_blocks == 0]
    assert idle
    visit(app, view="steps", point=str(idle[0]))
    assert "Nothing to do at this point" in texts(app)
    app.button(key="point_with_work").click().run()
    assert "Nothing to do at this point" not in texts(app)
    assert app.button(key="step_next")


def test_the_cut_names_how_many_blocks_are_missing(app):
    solved = study(SCENARIO)
    point = solved.default_point()
    problem = solved.front.problem(point)
    certificate = gamma_certificate(problem.usable_N, problem.num_blocks)
    visit(app, view="proof")
    assert not app.exception
    assert metrics(app)["Missing"] == str(certificate.demand - certificate.capacity)
    assert f"γ\\* rises to {certificate.gamma_star + 1}" in texts(app)


def test_of_many_clients_sixty_are_shown_for_editing_and_all_in_groups(app):
    visit(app, clients="150")
    assert not app.exception
    slider = app.slider(key="first_client")
    assert (slider.min, slider.max) == (1, 91)
    slider.set_value(91).run()
    assert not app.exception


def test_a_bug_in_the_part_that_reruns_alone_is_one_sentence(app, monkeypatch, caplog):
    def broken(*_, **__):
        raise RuntimeError("secret detail")

    monkeypatch.setattr("app.screens.allocation.edit.judge", broken)
    visit(app)
    assert not app.exception
    assert "Something went wrong on our side" in texts(app)
    assert "secret" not in texts(app)
    assert "secret detail" in caplog.text
