"""The browser's twins of the core, in a real browser: equal matrices, Lambda to 1e-12, the same bound."""

from __future__ import annotations

import numpy as np
import pytest

from app.explore import text_of
from app.parts import fleets
from app.scenario import SHAPES, Scenario, link_of
from tests.app.test_scenario import SCENARIOS
from zorba_core.allocation import Problem, solve, water_filled_bound
from zorba_core.vram import PRESETS, Workload, psi_block_bytes, psi_model_bytes

pytestmark = [pytest.mark.browser, pytest.mark.slow]
pytest.importorskip("playwright.sync_api", reason="needs the playwright package")

FLEETS = 200
TWINS = """async ([source, cases]) => {
    const core = await import('data:text/javascript;charset=utf-8,' + encodeURIComponent(source));
    return cases.map(([budget, M, total]) => {
        const two = core.closest_two_level(budget, M, total);
        const deals = { balanced: core.balanced(budget, M, total), 'two-level': two };
        const held = core.water_filled_budgets(budget, Math.min(total, budget.reduce((a, b) => a + b)));
        return { bound: core.water_filled_bound(budget, M, total), quick: core.balanced_metrics(held, M).lambda,
            ...Object.fromEntries(Object.entries(deals).map(([name, blocks]) => {
                const { lambda, mean_inverse_popularity } = core.measures(blocks, M);
                return [name, { blocks, lambda, mean_inverse_popularity }];
            })) };
    });
}"""
SIZES = """async ([source, cases]) => {
    const core = await import('data:text/javascript;charset=utf-8,' + encodeURIComponent(source));
    return cases.map(([spec, work]) => [core.psi_model_bytes(spec, work), core.psi_block_bytes(spec, work)]);
}"""
DRAWN = """async ([source, cases]) => {
    const page = await import('data:text/javascript;charset=utf-8,' + encodeURIComponent(source));
    return cases.map(([fields, needs, draw]) => page.gib_of(fields, needs, draw));
}"""

ADDRESSES = """async ([source, [fields, usual, compared]]) => {
    const { address_of } = await import('data:text/javascript;charset=utf-8,' + encodeURIComponent(source));
    return address_of(fields, usual, compared, 'clients=7&foo=%C3%BC&unit=%25&compared=old');
}"""


def random_problem(rng: np.random.Generator) -> Problem:
    """Few clients or a thousand, equal or very different budgets, any feasible total."""
    clients, blocks = round(10 ** rng.uniform(0, 3)), int(rng.choice([1, 2, 3, 12, 24, 30, 48]))
    budget_N = rng.integers(1, rng.integers(1, blocks + 1), clients, endpoint=True)
    if rng.random() < 0.25:
        budget_N = np.where(rng.random(clients) < 0.2, blocks, 1)
    if budget_N.sum() < blocks:
        budget_N[:] = blocks
    least, most = max(blocks, clients), int(budget_N.sum())
    return Problem(budget_N, blocks, most if rng.random() < 0.1 else int(rng.integers(least, most, endpoint=True)))


def test_browser_and_core_give_equal_matrices_and_measures_on_200_random_fleets(browser):
    rng = np.random.default_rng(67)
    problems = [random_problem(rng) for _ in range(FLEETS)]
    page = browser.new_page()
    cases = [[problem.budget_N.tolist(), problem.num_blocks, problem.total] for problem in problems]
    twins = page.evaluate(TWINS, [text_of("allocation.js"), cases])
    page.close()
    differing = 0
    for problem, twin in zip(problems, twins, strict=True):
        solutions = {name: solve(problem, name) for name in ("balanced", "two-level")}
        for name, solution in solutions.items():
            assert twin[name]["blocks"] == solution.allocation.blocks_per_client, (name, problem)
            assert twin[name]["lambda"] == pytest.approx(solution.value, rel=1e-12)
            mean = solution.allocation.mean_inverse_popularity
            assert twin[name]["mean_inverse_popularity"] == pytest.approx(mean, rel=1e-12)
        assert twin["quick"] == pytest.approx(solutions["balanced"].value, rel=1e-12)
        assert twin["bound"] == pytest.approx(water_filled_bound(problem), rel=1e-10)
        differing += twin["balanced"]["blocks"] != twin["two-level"]["blocks"]
    assert differing > FLEETS / 4  # the two methods are not one


def test_browser_and_core_count_the_same_bytes(browser):
    rng, cases, expected = np.random.default_rng(1), [], []
    for spec in PRESETS.values():
        for dtype, width in (("float32", 4), ("bfloat16", 2)):
            batch, length = (int(value) for value in rng.integers(1, (512, 8192)))
            cases.append([vars(spec), {"batch": batch, "length": length, "bytes": width}])
            work = Workload(batch_size=batch, seq_len=length, dtype=dtype)
            expected.append([psi_model_bytes(spec, work), psi_block_bytes(spec, work)])
    page = browser.new_page()
    assert page.evaluate(SIZES, [text_of("allocation.js"), cases]) == expected
    page.close()


def test_a_fleet_that_moves_in_the_browser_is_the_one_that_the_core_draws(browser):
    spans = [None, (0.7, 1.5), (0.0, 2.0)]
    scenarios = [Scenario(shape=shape, span=span, clients=40, seed=5) for shape in SHAPES for span in spans]
    cases = []
    for scenario in scenarios:
        need = fleets.needs_of(scenario)
        needs = {name: getattr(need, name) for name in ("model_gib", "block_gib", "one_gib", "all_gib")}
        cases.append([scenario.model_dump(mode="json"), needs, fleets.draw_of(scenario)])
    source = text_of("allocation.js") + text_of("fleet.js").replace('import { evenRound } from "./allocation.js";', "")
    page = browser.new_page()
    drawn = page.evaluate(DRAWN, [source, cases])
    page.close()
    for scenario, gib in zip(scenarios, drawn, strict=True):
        assert gib == pytest.approx(fleets.gib_of(scenario).tolist(), rel=1e-6), scenario.shape


def test_browser_and_core_write_equal_addresses(browser):
    page = browser.new_page()
    usual = Scenario().model_dump(mode="json", exclude={"compared"})
    for scenario in [*SCENARIOS, Scenario(rows=tuple((1 + n / 700, 1) for n in range(200)), low=0.1 + 0.2)]:
        case = [scenario.model_dump(mode="json", exclude={"compared"}), usual, scenario.compared]
        written = page.evaluate(ADDRESSES, [text_of("address.js"), case])
        assert written == "&".join(filter(None, ["foo=%C3%BC", link_of(scenario)]))
    page.close()
