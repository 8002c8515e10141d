"""The constants of the bounds, as controls that a link restores.

Shapes: scalars only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.shared.links import choice, choose, linked, linked_number, number
from app.shared.study import Study
from zorba_core.study.theory import Bound, Constants, largest_lr_theorem_1, largest_lr_theorem_2, theorem_1, theorem_2

THEOREMS = {
    "1": "Theorem 1, as printed",
    "1-proof": "Theorem 1, as proven",
    "2": "Theorem 2, dimension-free",
}


def _decades(low: int, high: int, steps: Sequence[str] = ("1", "2", "5")) -> list[str]:
    return [f"{step}e{power}" for power in range(low, high) for step in steps] + [f"1e{high}"]


DIMENSIONS, ROUNDS = _decades(1, 10), _decades(0, 16, ("1",))
STEPS = ["0", *_decades(-16, 0, ("1",))]
SMOOTHNESS = _decades(-2, 3)
DEVIATIONS = ["0", *_decades(-2, 2)]
RATES = ["0.01", "0.1", "0.25", "0.5", "0.67", "0.9", "1", "1.25", "1.5", "2", "5"]


@dataclass(frozen=True)
class Setting:
    """What the controls say."""

    theorem: str
    constants: Constants
    gap: float  # f(w_1) - f(w*)
    num_rounds: float
    largest_lr: float  # what the theorem allows

    @property
    def is_theorem_2(self) -> bool:
        return self.theorem == "2"

    @property
    def num_clients(self) -> int:
        return self.constants.num_clients

    @property
    def bound(self) -> Bound:
        if self.is_theorem_2:
            return theorem_2(self.constants)
        return theorem_1(self.constants, "proof" if self.theorem == "1-proof" else "statement")

    @property
    def shortfall(self) -> float:
        """By how much the largest learning rate that the theorem allows exceeds what D > 0 needs at Lambda = N: D is
        eta/2 - (slope/eta^2) eta^2 N, which is 0 at eta = 1/(2 N slope/eta^2)."""
        per_square = self.bound.slope / self.constants.lr**2
        return self.largest_lr * 2 * self.num_clients * per_square

    def total(self, bias_lambda: float) -> float:
        return self.bound.average_gradient(bias_lambda, self.gap, self.num_rounds)

    def terms_csv(self, bias_lambda: float) -> bytes:
        """The bound term by term, from one round to a hundred times those in view."""
        rounds_T = np.geomspace(1, 100 * self.num_rounds, 121)
        terms_T = [self.bound.terms(bias_lambda, self.gap, float(rounds)) for rounds in rounds_T]
        table = pd.DataFrame([asdict(terms) | {"total": terms.total} for terms in terms_T])
        table.insert(0, "rounds", rounds_T)
        return table.to_csv(index=False).encode()

    @property
    def slope_formula(self) -> str:
        if self.is_theorem_2:
            return r"\frac{d\,\eta^2 L\,(\kappa+2)}{2(d+2)}\,N"
        return rf"\tfrac32 L \eta^2 {self._variance_factor} N"

    @property
    def dissimilarity_formula(self) -> str:
        return r"\eta N" if self.is_theorem_2 else r"(\eta N + s)"

    @property
    def variance_formula(self) -> str:
        return r"\tfrac{s}{N}" if self.is_theorem_2 else "s"

    @property
    def _variance_factor(self) -> str:
        return "d" if self.theorem == "1-proof" else r"\tfrac{d+Q-1}{Q}"


@dataclass(frozen=True)
class _Size:
    """One of many sizes on a logarithmic scale."""

    key: str  # in the address
    label: str
    options: Sequence[str]
    default: str
    help: str

    def chosen(self) -> float:
        return float(choice(self.key, self.options, self.default))

    def draw(self, help_text: str = "") -> None:
        linked(
            st.select_slider,
            self.label,
            self.options,
            self.default,
            key=self.key,
            help=help_text or self.help,
            format_func=_size,
        )


_DIMENSION = _Size(
    "d",
    "Parameters d",
    DIMENSIONS,
    "1e3",
    "Numbers that are trained. The bounds of Theorem 1 and the finite-difference term grow with it.",
)
_STEP = _Size("mu", "Step μ", STEPS, "1e-5", "Length of a finite difference. 0: exact directional derivatives.")
_SMOOTHNESS = _Size("smooth", "Smoothness L", SMOOTHNESS, "1e0", "Lipschitz constant of the gradient, Assumption 1.")
_NOISE = _Size(  # "sigma" is the fleet's, in the same address
    "noise",
    "Noise σ of mini-batches",
    DEVIATIONS,
    "1e0",
    "Standard deviation of a client's gradient, Assumption 2.",
)
_DISTANCE = _Size(
    "sigma_g",
    "Distance σ_G of clients' data",
    DEVIATIONS,
    "5e-1",
    "Largest distance between a client's gradient and the global one.",
)
_RATE = _Size("rate", "Learning rate η, as a multiple of the largest allowed", RATES, "1", "")
_ROUNDS = _Size("rounds", "Rounds T", ROUNDS, "1e8", "Where the numbers are read off.")
_KAPPA, _DIRECTIONS, _GAP = ("kappa", 1, 200, 20), ("q", 1, 100, 1), ("gap", 0.1, 10.0, 1.0)  # key, from, to, at first


def chosen(num_clients: int) -> Setting:
    """What the controls will say, before they are drawn."""
    theorem, num_parameters, smoothness = (
        choice("theorem", list(THEOREMS)),
        int(_DIMENSION.chosen()),
        _SMOOTHNESS.chosen(),
    )
    kappa, num_perturbations = (float(number(*_KAPPA)), 1) if theorem == "2" else (1.0, number(*_DIRECTIONS))
    if theorem == "2":
        largest = largest_lr_theorem_2(num_clients, num_parameters, smoothness, kappa)
    else:
        version = "proof" if theorem == "1-proof" else "statement"
        largest = largest_lr_theorem_1(num_clients, num_parameters, smoothness, version)
    constants = Constants(
        lr=_RATE.chosen() * largest,
        num_clients=num_clients,
        num_parameters=num_parameters,
        smoothness=smoothness,
        mu=_STEP.chosen(),
        sigma=_NOISE.chosen(),
        sigma_global=_DISTANCE.chosen(),
        num_perturbations=num_perturbations,
        effective_rank=kappa,
    )
    return Setting(theorem, constants, float(number(*_GAP)), _ROUNDS.chosen(), largest)


def show(study: Study, setting: Setting) -> None:
    """Draw the controls, which say ``setting``."""
    linked(
        st.selectbox,
        "Bound",
        THEOREMS,
        key="theorem",
        help="Statement and proof of Theorem 1 differ in the variance factor and in the learning rate they allow. "
        "Theorem 2 replaces the dimension d by the effective rank κ of the Hessian.",
    )
    _DIMENSION.draw()
    model = study.scenario.model_spec
    st.button(
        f"Set d to {study.scenario.model.upper()}'s, about {_nearest(model.num_parameters)}",
        on_click=choose,
        args=("d", _nearest(model.num_parameters)),
        type="tertiary",
        key="model_d",
    )
    for size in (_STEP, _SMOOTHNESS, _NOISE, _DISTANCE):
        size.draw()
    if setting.is_theorem_2:
        _number("Effective rank κ", _KAPPA)
    else:
        _number(
            "Directions Q",
            _DIRECTIONS,
            disabled=setting.theorem == "1-proof",
            help="Perturbations a round. The statement divides the variance by Q; the proof does not know Q.",
        )
    _RATE.draw(f"The theorem allows η up to {setting.largest_lr:.3g}.")
    st.caption(f"η = {setting.constants.lr:.3g}")
    _number("Start: f(w₁) − f(w*)", _GAP, step=0.1, help="What is left to lose.")
    _ROUNDS.draw()


def _number(label: str, of: tuple[str, float, float, float], **arguments: Any) -> None:
    key, low, high, default = of
    linked_number(st.slider, label, low, high, default, key=key, **arguments)


def _size(option: str) -> str:
    value = float(option)
    return f"{value:g}" if value == 0 or 1e-3 <= value < 1e5 else option.replace("e-0", "e-").replace("e0", "e")


def _nearest(num_parameters: int) -> str:
    return min(DIMENSIONS, key=lambda option: abs(float(option) / num_parameters - 1))
