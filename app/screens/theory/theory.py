"""Theory: the convergence bounds of Theorems 1 and 2 as numbers, and what their one number for the allocation hides.

Shapes: scalars; N clients.
"""

from __future__ import annotations

import math

import streamlit as st

from app.screens.theory import controls, hidden
from app.shared import components, lambda_verdict, selection, state
from app.shared.components import Download, Number, as_pdf
from app.shared.glossary import glossary
from app.shared.guard import fragment
from app.shared.infeasible import explain
from app.shared.links import linked
from app.shared.study import Study
from zorba_core.allocation import Allocation
from zorba_core.plots.theory import bound_by_lambda_figure, bound_by_rounds_figure, rounds_where_bias_takes_over
from zorba_core.study.theory import Bound

VIEWS = {
    "bounds": ":material/trending_down: What the bounds promise",
    "hidden": ":material/visibility_off: What Λ hides",
}


def page() -> None:
    scenario = state.current()
    st.title("What does the theory promise?", anchor=False)
    study = state.solved_or_error(scenario)
    if not isinstance(study, Study):
        explain(study, scenario)
        return
    allocation, where_from = selection.current_allocation()
    st.markdown(
        "ZorBA's theorems bound the mean squared gradient of the first *T* rounds by two things: a **start** term that "
        "rounds wear down, and a **bias** that no number of rounds removes. The allocation enters through **Λ** alone. "
        f"Here: {allocation.num_clients} clients and {allocation.num_blocks} blocks, {where_from}: "
        f"**Λ = {allocation.bias_lambda:.4g}**."
    )
    _views(study, allocation)
    lambda_verdict.say()
    glossary()


@fragment
def _views(study: Study, allocation: Allocation) -> None:
    chosen = linked(
        st.segmented_control,
        "What to look at",
        VIEWS,
        required=True,
        key="part",
        label_visibility="collapsed",
    )
    if chosen == "hidden":
        hidden.show(study, allocation)
    else:
        _bounds(study, allocation)


def _bounds(study: Study, allocation: Allocation) -> None:
    with st.container(key="flip_theory"):
        head = st.container()  # above the controls that it follows; on a phone below the picture
        pictures, beside = st.columns([0.7, 0.3], gap="large")  # in this order on a phone
    setting = controls.chosen(allocation.num_clients)
    bound, bias_lambda = setting.bound, allocation.bias_lambda
    with pictures:  # drawn first: it is what a changed control is looked at for
        tabs = st.tabs(["Over the rounds", "Against Λ", "The formula with these numbers"])
        with tabs[0]:
            by_rounds = bound_by_rounds_figure(
                bound, bias_lambda, setting.gap, setting.num_rounds, palette=components.palette()
            )
            components.figure(
                by_rounds,
                key="rounds_plot",
                name="zorba-bound-by-rounds",
                alt=_rounds_alt(setting, bound, bias_lambda),
            )
        with head:
            _numbers(setting, bound, bias_lambda, allocation.num_clients)
        with beside:
            controls.show(study, setting)
        with tabs[0]:
            st.caption("Both axes are logarithmic: the start term falls as 1/T, the bias terms stay.")
            components.downloads(
                [
                    Download(
                        "Terms (CSV)",
                        "zorba-bound.csv",
                        lambda: setting.terms_csv(bias_lambda),
                        "Every term of the bound against rounds.",
                    ),
                    *as_pdf(lambda: by_rounds, "zorba-bound-by-rounds"),
                ],
                key="bound_files",
            )
        with tabs[1]:
            marks = {
                "full activation": 1.0 / allocation.num_clients,
                "this allocation": bias_lambda,
                "all VRAM used": study.everything.allocation.bias_lambda,
            }
            by_lambda = bound_by_lambda_figure(
                bound, setting.gap, setting.num_rounds, allocation.num_clients, marks, palette=components.palette()
            )
            components.figure(
                by_lambda,
                key="lambda_plot",
                name="zorba-bound-by-lambda",
                alt=f"The bound rises with Λ, Lemma 4. At this allocation it is {setting.total(bias_lambda):.3g}.",
            )
            st.caption(
                "Lemma 4: less Λ always lowers the bound, whatever the constants; they decide how much. Whether "
                "training follows the bound is undecided."
            )
            components.downloads(as_pdf(lambda: by_lambda, "zorba-bound-by-lambda"), key="lambda_files")
        with tabs[2]:
            st.latex(_with_numbers(setting, bound, bias_lambda))
            st.caption("Numbers rounded to three digits; `zorba_core.study.theory` computes them.")
        _warnings(setting, bound, bias_lambda)
    st.latex(_formula(setting.is_theorem_2))


def _formula(is_theorem_2: bool) -> str:
    d, theta = (r"\Phi", r"\Theta_2") if is_theorem_2 else (r"\Omega", r"\Theta_1")
    return (
        r"\begin{aligned}\frac{1}{T}\sum_{t=1}^{T} \mathbb{E}\,\|\nabla f(\mathbf{w}_t)\|^2 &\;\le\; "
        rf"\underbrace{{\frac{{f(\mathbf{{w}}_1) - f(\mathbf{{w}}^*)}}{{{d}\,T}}}}_{{\text{{start}}}} + "
        rf"\underbrace{{\frac{{{theta}}}{{{d}}}\,\Lambda}}_{{\text{{bias}}}} \\ {d} &\;=\; \tfrac{{\eta}}{{2}} - s\,"
        r"\Lambda \end{aligned}"
    )


def _numbers(setting: controls.Setting, bound: Bound, bias_lambda: float, num_clients: int) -> None:
    terms = bound.terms(bias_lambda, setting.gap, setting.num_rounds)
    full = bound.bias(1.0 / num_clients)
    bias = terms.total - terms.start if math.isfinite(terms.total) else math.inf
    turn = rounds_where_bias_takes_over(bound, bias_lambda, setting.gap)
    components.numbers(
        [
            Number(
                "The bound",
                _short(terms.total),
                "Start and bias together, after T rounds.",
                f"after {_short(setting.num_rounds)} rounds",
            ),
            Number(
                "Start",
                _short(terms.start),
                r"$(f(\mathbf{w}_1) - f(\mathbf{w}^*)) / (D\,T)$, where D is Ω or Φ.",
                "falls as 1/T",
            ),
            Number(
                "Bias",
                _short(bias),
                r"$\Theta \Lambda / D$: from finite differences, unlike data and mini-batches.",
                f"{bias / full:.3g} × full activation's" if math.isfinite(bias) and full > 0 else "without limit",
            ),
            Number(
                "Bias takes over",
                _short(turn),
                "The round from which the start term is the smaller one: more rounds buy little after it.",
                "rounds",
            ),
        ]
    )


def _short(value: float) -> str:
    if not math.isfinite(value):
        return "∞"
    return f"{float(f'{value:.3g}'):,.0f}" if 1e3 <= abs(value) < 1e9 else f"{value:.3g}"


def _warnings(setting: controls.Setting, bound: Bound, bias_lambda: float) -> None:
    """Where the bound says nothing or next to nothing, and which control changes that."""
    if bound.denominator(bias_lambda) <= 0:
        st.warning(
            f"**The bound says nothing here.** At this learning rate D(Λ) is {bound.denominator(bias_lambda):.2g}, not "
            f"positive: it needs Λ below {bound.largest_lambda:.3g}. Lower the learning rate, or choose an allocation "
            "with less Λ.",
            icon=":material/warning:",
        )
        return
    if bound.largest_lambda < setting.num_clients and setting.shortfall > 1:
        st.info(
            f"At this learning rate the bound holds for Λ up to {bound.largest_lambda:.3g} only, though the theorem "
            f"promises every Λ up to N = {setting.num_clients}: the rate printed is {setting.shortfall:.2g} times what "
            f"D > 0 needs at Λ = N.",
            icon=":material/rule:",
        )
    terms = bound.terms(bias_lambda, setting.gap, setting.num_rounds)
    others = terms.dissimilarity + terms.variance
    if terms.estimate > 10 * others > 0:
        enough = setting.constants.mu * math.sqrt(others / terms.estimate)
        times = f"{terms.estimate / others:.2g}"
        st.info(
            f"**Finite differences drown everything else**: their term, μ²L²(d + 3)³NΛ/2, is {times} times the other "
            f"two together. The bound is of use from μ ≤ {enough:.1g} on: a weakness of the proof, not of training.",
            icon=":material/straighten:",
        )


def _rounds_alt(setting: controls.Setting, bound: Bound, bias_lambda: float) -> str:
    turn = rounds_where_bias_takes_over(bound, bias_lambda, setting.gap)
    reached = setting.total(bias_lambda)
    return (
        f"The bound against rounds. After {setting.num_rounds:.3g} rounds it is {reached:.3g}; the bias takes over at "
        f"{turn:.3g} rounds."
    )


def _with_numbers(setting: controls.Setting, bound: Bound, bias_lambda: float) -> str:
    terms = bound.terms(bias_lambda, setting.gap, setting.num_rounds)
    d = r"\Phi" if setting.is_theorem_2 else r"\Omega"
    lines = [
        rf"s &= {setting.slope_formula} = {_power(bound.slope)}",
        rf"{d}(\Lambda) &= \tfrac{{\eta}}{{2}} - s\Lambda = {_power(bound.intercept)} - {_power(bound.slope)} \times "
        rf"{bias_lambda:.3g} = {_power(bound.denominator(bias_lambda))}",
        rf"\text{{finite differences}} &= \tfrac14 \mu^2 L^2 \eta (d+3)^3 N \,\tfrac{{\Lambda}}{{{d}}} = "
        rf"{_power(terms.estimate)}",
        rf"\text{{unlike data}} &= {setting.dissimilarity_formula}\,\sigma_G^2 \,\tfrac{{\Lambda}}{{{d}}} = "
        rf"{_power(terms.dissimilarity)}",
        rf"\text{{mini-batches}} &= {setting.variance_formula}\,\sigma^2 \,\tfrac{{\Lambda}}{{{d}}} = "
        rf"{_power(terms.variance)}",
        rf"\text{{start}} &= \frac{{{setting.gap:.3g}}}{{{_power(bound.denominator(bias_lambda))} \times "
        rf"{_power(setting.num_rounds)}}} = {_power(terms.start)}",
    ]
    return r"\begin{aligned}" + r"\\[4pt]".join(lines) + r"\end{aligned}"


def _power(value: float) -> str:
    if not math.isfinite(value):
        return r"\infty"
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.3g}"
    mantissa, exponent = f"{value:.2e}".split("e")
    return rf"{mantissa} \times 10^{{{int(exponent)}}}"


page()
