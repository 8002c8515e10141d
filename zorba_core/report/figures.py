"""The pictures of the report page, as PNG inside data addresses. plotly and kaleido are needed here and nowhere else in
the ledger."""

from __future__ import annotations

import base64
import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zorba_core.allocation.scenarios import PAPER_SCENARIOS
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.study.experiments import analysis, lambda_study, read_results
from zorba_core.study.experiments.method_comparison import grid_edge, seed_curves
from zorba_core.study.experiments.protocol import EASY_SHARE, TARGET_SHARE, target_of
from zorba_core.study.experiments.resampling import arms_differ
from zorba_core.study.experiments.store import Results
from zorba_core.study.ledger.front_rows import FLEETS_OF_FRONT, at_ratio
from zorba_core.study.ledger.memory_rows import MEASURED, MIB, read_measured
from zorba_core.study.ledger.verdicts import PROFILE, interval_text, paired
from zorba_core.vram import Workload, model_spec, psi_block_bytes

_SCALE = 1.5  # pixels of the picture for one of the page


@dataclass(frozen=True)
class ReportFigure:
    """``light`` and ``dark`` are data addresses."""

    title: str
    caption: str
    alt: str
    light: str
    dark: str
    width: int
    height: int


def pictures(checkout: Path) -> list[ReportFigure]:
    """
    Raises:
        MissingDataError: plotly or kaleido is not installed, or there are no results.
    """
    for package in ("plotly", "kaleido"):
        if importlib.util.find_spec(package) is None:
            raise MissingDataError(
                f"the page's figures need {package}; install it with: "
                "pip install -c constraints.txt torch==2.13.0 -e '.[app,notebooks]', or leave --html out"
            )
    import kaleido

    from zorba_core.plots.pictures import OFFLINE

    kaleido.start_sync_server(silence_warnings=True, **OFFLINE)
    try:
        root = checkout / "artifacts" / "experiments"
        results = {name: read_results(name, PROFILE, root) for name in ("lambda", "cases", "tables", "ablations")}
        position = _position_maker(results["ablations"])
        makers = (*_lambda_makers(results["lambda"]), position, *_training_makers(results), _front, _memory(checkout))
        return [picture for picture in (maker() for maker in makers) if picture is not None]
    finally:
        kaleido.stop_sync_server(silence_warnings=True)


def _picture(title: str, caption: str, draw: Callable[[Any], Any]) -> ReportFigure:
    from zorba_core.plots.theme import DARK, LIGHT

    light, dark = (draw(palette) for palette in (LIGHT, DARK))
    return ReportFigure(
        title, caption, f"{title}. {caption}", _png(light), _png(dark), light.layout.width, light.layout.height
    )


def _png(figure: Any) -> str:
    from zorba_core.plots.pictures import picture_bytes

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The kopts argument is ignored")  # the server has its own
        picture = picture_bytes(figure, "png", scale=_SCALE)
    return "data:image/png;base64," + base64.b64encode(picture).decode()


def _lambda_makers(results: Results) -> list[Callable[[], ReportFigure | None]]:
    from zorba_core.plots.claims import pairs_figure, predictor_figure

    main = lambda_study.compared(results)
    table = main.table
    runs = results.finished
    runs = runs[(runs["num_clients"] == 20) & (runs["lr"] == 2e-2) & (runs["alpha"] == 1.0)]
    fewest, most = int(table["seeds"].min()), int(table["seeds"].max())
    seeds = f"{len(runs)} runs, {fewest if fewest == most else f'{fewest} to {most}'} for each allocation"
    diverged = int((table["diverged"] > 0).sum())
    seeds += f"; {diverged} allocations that diverged are not drawn" if diverged else ""

    def against(measure: str, what: str) -> Callable[[], ReportFigure]:
        def make() -> ReportFigure:
            try:
                groups = [main.made_by(group) for group in (lambda_study.SOLVED, lambda_study.BUILT)]
                ranked = [lambda_study.predictors(group, [measure]).loc[measure] for group in groups]
                apart = [
                    f"{rho['value']:+.2f} ({rho['low']:+.2f} to {rho['high']:+.2f}) over the {rho['count']:.0f} {whose}"
                    for rho, whose in zip(ranked, ("that solvers return", "built by hand"), strict=True)
                ]
                sentence = f"Rank correlation {', '.join(apart)}; intervals over allocations and seeds"
            except InvalidInputError:
                sentence = "Too few allocations for a correlation"
            try:
                error = arms_differ(main.losses).standard_error
                sentence += f". Bars: one standard error of a point over its seeds, {error:.3f}"
            except InvalidInputError:
                error = None
            caption = f"{sentence}. {len(table)} allocations of 20 clients, SST-2, opt-mini; {seeds}."
            return _picture(what, caption, lambda palette: predictor_figure(table, measure, palette, error))

        return make

    def matched() -> ReportFigure | None:
        pairs = analysis.matched_pairs(table, runs)
        if pairs.empty:
            return None
        noisier = int((pairs["E_pile"] > pairs["E_spread"] * (1 + 1e-9)).sum())
        caption = (
            "Equal totals, popularities and V; scarce blocks piled on the same clients have the lower Λ and, in "
            f"{noisier} of {len(pairs)} pairs, the higher coupled noise. Right of zero: the lower Λ trains worse. "
            "Bars: 95 % over seeds; where they contain zero nothing is decided."
        )
        return _picture("Matched pairs", caption, lambda palette: pairs_figure(pairs, palette))

    return [against("lambda", "Loss against Λ"), against("V", "Loss against V"), matched]


def _position_maker(ablations: Results) -> Callable[[], ReportFigure | None]:
    """Equal in every measure of an allocation; where the trained blocks stand in the model is all that differs."""
    from zorba_core.plots.paired import paired_curves_figure

    first, last = "first 4 blocks", "last 4 blocks"

    def make() -> ReportFigure | None:
        pairs = paired(ablations.runs, last, first, "late_loss")
        if pairs is None:
            return None
        curves = analysis.paired_curves(ablations.runs, ablations.curves, first, arms=[last])
        caption = (
            "Everybody trains the last four of twelve blocks, minus everybody the first four: one Λ, V, E and T. Late "
            f"loss {interval_text(pairs).replace('pairs', 'seeds')}. SST-2, opt-mini, 20 clients."
        )
        return _picture(
            "Where the trained blocks stand",
            caption,
            lambda palette: paired_curves_figure(
                curves,
                {last: "last four minus first four"},
                x="Rounds",
                y="Difference of evaluation loss",
                width=460,
                palette=palette,
            ),
        )

    return make


def _training_makers(results: dict[str, Results]) -> list[Callable[[], ReportFigure | None]]:
    from zorba_core.plots.claims import arms_figure
    from zorba_core.plots.methods import seeds_by_method

    def cases() -> ReportFigure | None:
        experiment = results["cases"]
        curves = analysis.mean_curves(experiment.runs, experiment.curves)
        titles = {name: f"{name}, Λ {s.bias_lambda:.2f} at {s.vram_ratio:.2f}" for name, s in PAPER_SCENARIOS.items()}
        count = int(experiment.runs["seed"].nunique())
        caption = f"50 clients, SST-2, opt-mini, matrices with the printed (VRAM ratio, Λ). {count} runs each."
        return _picture(
            "The case study of Fig. 4(b)",
            caption,
            lambda palette: arms_figure(curves, palette, titles=titles, x="Rounds", y="Evaluation loss"),
        )

    def methods(cost: str, title: str, x: str, log_x: bool) -> Callable[[], ReportFigure | None]:
        def make() -> ReportFigure | None:
            experiment = results["tables"]
            curves = seed_curves(experiment, "sst2", cost)
            if curves.empty:
                return None
            curves = curves[curves["cost"] > 0] if log_x else curves
            titles = {
                "zorba": "ZorBA, Q=10",
                "decomfl-10": "DeComFL, Q=10",
                "decomfl": "DeComFL, Q=1",
                "fedzo": "FedZO, Q=1",
                "fedit": "FedIT",
            }
            edges = [
                f"{titles[arm]} (η {edge.rate:g})" for arm in titles if (edge := grid_edge(experiment, "sst2", arm))
            ]
            caption = (
                f"SST-2, opt-mini, 20 clients, {curves['seed'].nunique()} seeds (thin) and their mean as far as all "
                "ran; a star stopped at the 95 % target. "
                + ("Same horizon for all. " if cost == "rounds" else "A method ends where its rounds did. ")
                + (
                    f"Best rate on the edge of its grid, the true best may lie beyond: {', '.join(edges)}."
                    if edges
                    else ""
                )
            )
            targets = {f"{share:.0%} of the ceiling": target_of("sst2", share) for share in (EASY_SHARE, TARGET_SHARE)}
            return _picture(
                title,
                caption,
                lambda palette: seeds_by_method(
                    curves, palette, titles=titles, x=x, y="Evaluation accuracy", targets=targets, log_x=log_x
                ),
            )

        return make

    return [
        cases,
        methods("rounds", "Methods by rounds", "Rounds", False),
        methods("passes", "Methods by forward passes", "Forward passes of a client's batch (log scale)", True),
    ]


def _front() -> ReportFigure:
    from zorba_core.plots.claims import lines_figure

    ratios = np.linspace(0.5, 0.95, 10)
    front = [at_ratio(float(ratio)) for ratio in ratios]
    lines = {
        "the paper's method": (ratios, [point.method for point in front]),
        "optimum, same budgets": (ratios, [point.same_budgets for point in front]),
        "optimum, same VRAM in all": (ratios, [point.same_total for point in front]),
    }
    points = {name: (s.vram_ratio, s.bias_lambda) for name, s in PAPER_SCENARIOS.items()}
    caption = (
        f"OPT-125M, 50 clients, means of {FLEETS_OF_FRONT} fleets, optima proven. From the first line to the second: "
        "what Theorem 3 and the greedy step cost. From the second to the third: memory moved between clients. The "
        "paper's three scenarios lie above what its own method gives at their VRAM; SC2 and SC3 are dominated whatever "
        "the method."
    )
    return _picture(
        "The front of Fig. 4(a)",
        caption,
        lambda palette: lines_figure(
            lines, palette, x="Share of all VRAM", y="Λ (log scale)", points=points, log_y=True
        ),
    )


def _memory(checkout: Path) -> Callable[[], ReportFigure]:
    from zorba_core.plots.claims import lines_figure

    def make() -> ReportFigure:
        measured = read_measured(checkout / MEASURED)
        blocks = sorted(measured)
        block = psi_block_bytes(model_spec("opt-125m"), Workload(batch_size=8, seq_len=128)) / MIB
        lines = {
            "the paper's model": (blocks, [count * block for count in blocks]),
            "measured": (blocks, [measured[count] for count in blocks]),
        }
        caption = (
            "One client of OPT-125M's sizes, B = 8, L = 128, above the loaded model. Forward passes free a block's "
            "tensors before they make the next one's. On CPU."
        )
        return _picture(
            "Fig. 1: VRAM by activated blocks",
            caption,
            lambda palette: lines_figure(lines, palette, x="Activated blocks", y="MiB beside the parameters"),
        )

    return make
