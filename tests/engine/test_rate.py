"""The rate in units of the scalars, and the way back from a rate that was too large."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from tests.engine.all_rounds import run_all
from zorba_core.allocation import Allocation
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.course import Course, is_over, path
from zorba_core.engine.evaluation import label_log_probabilities
from zorba_core.engine.loop import BestWeights, Training, init, repeat_round, run_rounds
from zorba_core.engine.rate import LONGEST, length_of_step, rate_of_round, size_of_step
from zorba_core.engine.round import FederatedRows, Round, Step
from zorba_core.engine.rows import Rows
from zorba_core.engine.settings import Settings

A_MN = np.array([[1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1]], dtype=bool)
SETTINGS = Settings(
    rounds=12, directions=3, num_seeds=64, batch_size=4, seq_len=8, eval_every=2, lr="auto", estimator="cohort"
)


def looks(*losses: tuple[float | None, float | None]) -> list[Round]:
    """Rounds 0, 1, ... with these losses in training and evaluation."""
    reported = np.zeros(1, np.uint8)
    return [
        Round(t, status_N=reported[: train is not None], loss_N=np.array([train or 0.0]), eval_loss=loss)
        for t, (train, loss) in enumerate(losses)
    ]


@pytest.mark.parametrize("method", ["zorba", "fedzo", "fedit"])
@pytest.mark.parametrize("direction", ["gaussian", "low-rank"])
def test_every_rounds_expected_step_has_one_length(new_network, rows, method, direction):
    """Before the schedule, lr times s is that length; for averaged scalars s is their root mean square over blocks."""
    directions = {"directions": 0 if method == "fedit" else 5, "estimator": "cohort"}
    settings = SETTINGS.replace(method=method, direction=direction, rounds=4, schedule="cosine", **directions)
    network = new_network()
    length = length_of_step(settings.directions, sum(network.sizes_M))
    done = run_all(network, Allocation(A_MN if method == "zorba" else A_MN | True), rows, settings)[1:]
    falls = [0.5 * (1 + np.cos(np.pi * t / 4)) for t in range(4)]
    rates = [each.lr for each in done]
    if method == "zorba":
        sizes = [np.sqrt(np.mean(np.square(5 * each.rho_bar_MQ))) for each in done]
        assert rates == pytest.approx([length * fall / size for fall, size in zip(falls, sizes, strict=True)])
    if method == "fedzo":
        sizes = [np.sqrt(np.mean(np.square(each.rho_NQ)) / 4) for each in done]
        assert rates == pytest.approx([length * fall / size for fall, size in zip(falls, sizes, strict=True)])
    assert all(rate > 0 for rate in rates)


def test_blocks_without_scalars_do_not_count_and_no_scalars_give_no_step():
    some = Step(np.array([[0.5, -0.5], [0.0, 0.0]]))
    assert size_of_step(some, directions=2) == pytest.approx(1.0)
    assert size_of_step(Step(np.zeros((2, 2))), directions=2) == 0
    assert rate_of_round(SETTINGS, 1, size=0.0, length=0.1) == 0
    assert rate_of_round(SETTINGS.replace(lr=0.3), 1, size=0.0, length=0.1) == 0.3


def test_more_directions_and_fewer_parameters_allow_longer_steps_up_to_the_gradients():
    assert length_of_step(800, 106_000_000) == pytest.approx(0.156)
    assert length_of_step(200, 106_000_000) == pytest.approx(0.078)
    assert length_of_step(10, 1_340_000) == pytest.approx(0.0418, rel=0.01)
    for directions in (800, 0):  # enough for so few parameters; and the gradient itself
        assert length_of_step(directions, 1_340_000) == LONGEST


def test_two_looks_running_far_above_the_first_loss_send_the_run_back_to_its_best_round_at_half_the_rate():
    course = Course(looks((None, 1.0), (1.0, None), (0.9, 0.8), (0.8, None), (3.0, None)))
    assert (course.start, course.factor) == (4, 1.0)
    for done in looks(*[(None, None)] * 5, (3.0, 4.0))[5:]:
        course.add(done)
    assert (course.start, course.best, course.factor) == (2, 2, 0.5)


@pytest.mark.parametrize("losses", [((1.2, None), (1.2, 1.1), (1.25, 1.25)), ((9.0, None), (1.0, 1.0), (9.0, None))])
def test_noise_and_single_looks_do_not(losses):
    assert Course(looks((None, 1.0), (1.0, None), *losses)).factor == 1


def test_weights_without_a_finite_loss_send_it_back_at_once():
    rounds = looks((None, 1.0), (1.0, 0.9), (1.0, None))
    course = Course([*rounds[:2], dataclasses.replace(rounds[2], diverged=True)])
    assert (course.start, course.factor) == (1, 0.5)


def test_the_result_is_the_last_round_unless_the_base_model_was_better():
    assert Course(looks((None, 1.0), (1.0, 0.7), (1.0, 0.9))).final == 2
    assert Course(looks((None, 1.0), (1.0, 0.7), (1.0, 1.1))).final == 1
    assert Course(looks((None, 1.0), (1.0, 1.05), (1.0, 1.1))).final == 0


def run(network, rows, settings, before=(), state=None, best=None) -> list[Round]:
    training = Training.local(network, Allocation(A_MN), rows, settings)
    training = training if best is None else dataclasses.replace(training, best=best)
    return list(run_rounds(training, state, before))


@pytest.fixture
def sure(new_network, rows):
    """Networks whose answers are far apart and mostly right, so that a wrong step costs many nats; and their rows."""

    def make() -> Blocks:
        network = new_network()
        with torch.no_grad():
            network.model.model.decoder.embed_tokens.weight[[70, 71]] *= 100  # the label words
        return network

    def answered(some: Rows) -> Rows:
        label_E = torch.from_numpy(label_log_probabilities(make(), some).argmax(axis=1))
        label_E[::5] = 1 - label_E[::5]
        return dataclasses.replace(some, label_E=label_E)

    return make, FederatedRows(answered(rows.train), rows.held_N, answered(rows.evaluation))


@pytest.mark.parametrize("times", [10, 100, 1e20])
def test_no_run_ends_above_its_first_loss_however_large_its_rate(sure, times):
    new, rows = sure
    network = new()
    found = run(new(), rows, SETTINGS.replace(rounds=1))[1].lr
    done = run(network, rows, SETTINGS.replace(lr=found * times))
    course = Course(done)
    assert course.factor < 1
    assert done[course.final].eval_loss <= done[0].eval_loss
    assert network.weights_sha256() == done[course.final].weights_sha256
    assert [each.after for each in done if each.after is not None]


def test_a_run_that_went_back_resumes_and_replays_to_the_same_bits(sure):
    """The log alone says where each round started."""
    new, rows = sure
    settings = SETTINGS.replace(lr=30 * run(new(), rows, SETTINGS.replace(rounds=1))[1].lr)
    done = run(new(), rows, settings)
    assert Course(done).factor < 1
    for at in range(1, settings.rounds + 1):  # the last: killed before the summary
        network, course, best = new(), Course(done[: at + 1]), BestWeights()
        state = init(network, settings)
        best.keep(network, state)
        for each in path(done, course.weights(is_over(done[at], settings))):
            state = repeat_round(state, each, network, Allocation(A_MN), settings)
            if each.round == course.best:
                best.keep(network, state)
        again = run(network, rows, settings, done[: at + 1], state, best)
        assert [each.weights_sha256 for each in again] == [each.weights_sha256 for each in done[at + 1 :]]
        assert [each.after for each in again] == [each.after for each in done[at + 1 :]]
        assert network.weights_sha256() == done[Course(done).final].weights_sha256


def test_a_target_that_a_worse_loss_reaches_ends_with_the_weights_of_the_result(sure):
    """Accuracy can rise while the loss does; summary, replay and network agree on one round."""
    new, rows = sure
    network = new()
    done = run(network, rows, SETTINGS.replace(lr=30 * run(new(), rows, SETTINGS.replace(rounds=1))[1].lr, target=0.3))
    assert network.weights_sha256() == done[Course(done).final].weights_sha256
