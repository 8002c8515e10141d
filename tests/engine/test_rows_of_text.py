"""Label words, options and written answers: each estimator against the reference, and transformers' own loss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.engine.forward_mode import estimate_jvp
from zorba_core.engine import evaluation
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.estimators.exact import estimate_exact
from zorba_core.engine.estimators.reference import batch_loss, estimate
from zorba_core.engine.evaluation import evaluate, label_log_probabilities, label_prior
from zorba_core.engine.rows import Rows, token_log_probabilities
from zorba_core.runs.predict import generate_tokens

SEEDS = [4, 2**32 - 1]
SIZES = (2, 9), (1, 6)  # of prompts and written answers
WORDS = [11, 250, 3]


def written_rows(rows: int, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    prompts, answers = ([rng.integers(2, 400, rng.integers(*size)).tolist() for _ in range(rows)] for size in SIZES)
    return Rows.of(prompts, [[answer] for answer in answers], np.zeros(rows), seq_len=16, pad_id=0).to("cpu")


def choices(rows: int, seed: int) -> tuple[list[list[int]], list[list[tuple[int, ...]]], np.ndarray]:
    """Prompts, and answers that often start alike, two to four of one to three tokens."""
    rng = np.random.default_rng(seed)
    every = [(2,), (3, 2), (3, 3), (3, 4, 2), (3, 4, 3), (4, 2), (4, 3, 2)]
    answers = [[every[place] for place in rng.permutation(len(every))[: rng.integers(2, 5)]] for _ in range(rows)]
    return [rng.integers(2, 400, rng.integers(2, 9)).tolist() for _ in range(rows)], answers, rng.integers(0, 2, rows)


def choice_rows(rows: int, seed: int) -> Rows:
    return Rows.of(*choices(rows, seed), seq_len=16, pad_id=0).to("cpu")


def word_rows(rows: int, seed: int) -> Rows:
    prompts, _, label_E = choices(rows, seed)
    return Rows.of(prompts, [[[word] for word in WORDS]] * rows, label_E, seq_len=16, pad_id=0).to("cpu")


MAKERS = [written_rows, choice_rows, word_rows]


@pytest.fixture
def small_batches(monkeypatch):
    """Evaluation takes three rows at a time, so that a test needs few."""
    monkeypatch.setattr(evaluation, "BATCH_SIZE", 3)


def own_loss(network: Blocks, rows: Rows) -> float:
    """transformers' loss of the whole sequences, their prompts masked."""
    ids_RL = F.pad(rows.token_ids_RL, (0, 1))
    labels_RL = torch.full_like(ids_RL, -100)
    for row, (last, target_T, count) in enumerate(zip(rows.last_R, rows.target_AT, rows.weights, strict=True)):
        answer = slice(int(last) + 1, int(last) + 1 + int(count))
        ids_RL[row, answer] = labels_RL[row, answer] = target_T[: int(count)]
    return float(network.model(ids_RL, labels=labels_RL).loss)


def test_the_loss_of_text_is_transformers_loss_of_labels(family, make_tiny_model, small_batches):
    network = Blocks(make_tiny_model(family), dtype=torch.float64)
    for seed in range(3):
        rows = written_rows(5, seed)
        assert batch_loss(network, rows) == pytest.approx(own_loss(network, rows), abs=1e-6)
        assert evaluate(network, rows).loss == pytest.approx(own_loss(network, rows), abs=1e-6)


def test_the_score_of_an_answer_is_the_sum_of_its_tokens_log_probabilities(family, make_tiny_model, small_batches):
    network = Blocks(make_tiny_model(family), dtype=torch.float64)
    prompts, answers, label_E = choices(6, 0)
    scores = []
    for prompt, options in zip(prompts, answers, strict=True):
        whole = []
        for option in options:
            logits_LV = network.model(torch.tensor([[*prompt, *option]]), use_cache=False).logits[0].double()
            log_p = logits_LV.log_softmax(dim=-1)[len(prompt) - 1 : -1]
            whole.append(sum(log_p[step, token] for step, token in enumerate(option)))
        scores.append(torch.stack(whole))
    rows = Rows.of(prompts, answers, label_E, seq_len=16, pad_id=0)
    log_p_EC = label_log_probabilities(network, rows)
    for log_p_C, score_C in zip(log_p_EC, scores, strict=True):
        assert log_p_C[: len(score_C)] == pytest.approx(score_C.log_softmax(0).numpy(), abs=1e-6)
        assert np.isinf(log_p_C[len(score_C) :]).all()
    expected = np.mean([-score.log_softmax(0)[label] for score, label in zip(scores, label_E, strict=True)])
    scored = evaluate(network, rows)
    assert scored.loss == pytest.approx(expected, abs=1e-6)
    assert scored.accuracy == np.mean([int(s.argmax()) == label for s, label in zip(scores, label_E, strict=True)])


def test_label_words_of_one_token_are_read_alone_and_score_as_any_answers_do(make_tiny_model):
    network = Blocks(make_tiny_model("opt"), dtype=torch.float64)
    prompts, _, _ = choices(5, 1)
    label_E = np.array([0, 2, 1, 1, 0])
    words = Rows.of(prompts, [[(word,) for word in WORDS]] * 5, label_E, seq_len=12, pad_id=0)
    assert words.one_token
    orders = [[(word,) for word in np.roll(WORDS, row % 2)] for row in range(5)]  # not the same for all
    rows = Rows.of(prompts, orders, (label_E + np.arange(5) % 2) % 3, seq_len=12, pad_id=0)
    assert not rows.one_token
    assert rows.token_ids_RL.equal(words.token_ids_RL)
    assert batch_loss(network, rows) == pytest.approx(batch_loss(network, words), abs=1e-12)
    assert label_log_probabilities(network, rows)[::2] == pytest.approx(label_log_probabilities(network, words)[::2])


def test_a_prior_is_taken_out_of_loss_accuracy_and_probabilities(make_tiny_model, subtests):
    for make in [choice_rows, word_rows]:
        with subtests.test(make=make):
            network = Blocks(make_tiny_model("opt"), dtype=torch.float64)
            rows = make(6, 0)
            log_p_EC = label_log_probabilities(network, rows)
            prior_C = np.linspace(-3.0, 4.0, log_p_EC.shape[1])
            shifted_EC = torch.from_numpy(log_p_EC - prior_C).log_softmax(dim=1).numpy()
            fair = replace(rows, prior_C=torch.from_numpy(prior_C))
            assert label_log_probabilities(network, fair) == pytest.approx(shifted_EC, abs=1e-12)
            scored, label_E = evaluate(network, fair), rows.label_E.numpy()
            assert scored.loss == pytest.approx(-shifted_EC[np.arange(6), label_E].mean(), abs=1e-12)
            assert scored.loss == pytest.approx(batch_loss(network, fair), abs=1e-12)
            assert scored.accuracy == (shifted_EC.argmax(axis=1) == label_E).mean()


def test_the_prior_of_label_words_is_their_mean_log_probability_among_each_other(make_tiny_model):
    network = Blocks(make_tiny_model("opt"), dtype=torch.float64)
    rows = word_rows(200, 0)
    prior_C = label_prior(network, rows)
    assert prior_C == pytest.approx(label_log_probabilities(network, rows).mean(axis=0), abs=0.1)
    again_C = label_prior(network, replace(rows, prior_C=torch.from_numpy(prior_C), label_E=rows.label_E * 0))
    assert again_C.tolist() == prior_C.tolist()
    few = rows.rows(np.arange(3))
    assert label_prior(network, few) == pytest.approx(label_log_probabilities(network, few).mean(axis=0))


def test_a_mean_score_does_not_punish_a_long_answer(make_tiny_model):
    network = Blocks(make_tiny_model("opt"), dtype=torch.float64)
    prompts, answers, label_E = choices(6, 0)
    sums, means = (Rows.of(prompts, answers, label_E, 16, 0, mean=mean) for mean in (False, True))
    sum_EC, mean_EC = (rows.scores(network, network(rows)).numpy() for rows in (sums, means))
    for options, sum_C, mean_C in zip(answers, sum_EC, mean_EC, strict=True):
        length_C = np.array([len(option) for option in options])
        assert mean_C[: len(options)] == pytest.approx(sum_C[: len(options)] / length_C)
    assert sums.sha256() != means.sha256()


def test_the_fingerprint_of_label_words_is_that_of_earlier_versions():
    rows = Rows.of([[7, 8], [9]], [[[5], [6]]] * 2, np.array([1, 0]), seq_len=4, pad_id=1)
    assert rows.sha256() == "f0de36b9ffa9087261faaec8002052611d602c418b37d5f459ae5405eeca0de4"


def test_answers_that_start_alike_share_a_row():
    """Each prompt is run once for each path to a last branching: 3 4 and 5, not once for each of six answers."""
    answers = [(2,), (3, 2), (3, 4, 2), (3, 4, 3), (5, 2), (5, 3)]
    rows = Rows.of([[7, 8]], [answers], np.array([0]), seq_len=4, pad_id=0)
    assert rows.token_ids_RL.tolist() == [[7, 8, 3, 4], [7, 8, 5, 0]]


def test_the_cohort_is_the_reference_for_every_family(family, make_tiny_model, subtests):
    for inactive in ["frozen", "dropped"]:
        for make in MAKERS:
            with subtests.test(inactive=inactive, make=make):
                network = Blocks(make_tiny_model(family), dtype=torch.float64)
                batches_N = [make(3 + n % 2, n) for n in range(5)]
                A_MN = np.random.default_rng(1).random((3, 5)) < 0.6
                directions = Directions("rademacher", network.sizes_M, dtype=torch.float64)
                probe = (network, batches_N, A_MN, SEEDS, directions)
                reference = estimate(*probe, mu=1e-3, inactive=inactive)
                cohort = estimate_cohort(*probe, mu=1e-3, inactive=inactive)
                scale = np.abs(reference.rho_NQ).max()
                assert np.abs(cohort.rho_NQ - reference.rho_NQ).max() <= 1e-10 * max(scale, 1)
                assert cohort.loss_N == pytest.approx(reference.loss_N, rel=1e-10)


def test_one_backward_pass_gives_the_derivatives_of_forward_mode(family, make_tiny_model, subtests):
    for inactive in ["frozen", "dropped"]:
        for make in MAKERS:
            with subtests.test(inactive=inactive, make=make):
                network = Blocks(make_tiny_model(family), dtype=torch.float64)
                batches_N = [make(3 + n % 2, n) for n in range(4)]
                A_MN = np.random.default_rng(1).random((3, 4)) < 0.6
                directions = Directions("rademacher", network.sizes_M, dtype=torch.float64)
                forward_mode = estimate_jvp(network, batches_N, A_MN, SEEDS, directions, inactive=inactive)
                scale = np.abs(forward_mode.rho_NQ).max()
                assert scale > 0.1
                backward = estimate_exact(network, batches_N, A_MN, SEEDS, directions, inactive=inactive)
                tolerance = (
                    1e-5 if family == "llama" else 1e-10
                )  # Llama's norms compute in float32 whatever they are given
                assert np.abs(backward.rho_NQ - forward_mode.rho_NQ).max() <= tolerance * scale
                assert backward.loss_N == pytest.approx(forward_mode.loss_N, rel=tolerance)


def test_rows_are_chosen_joined_and_stored_without_change(make_tiny_model, subtests):
    for make in MAKERS:
        with subtests.test(make=make):
            network = Blocks(make_tiny_model("opt"), dtype=torch.float64)
            rows = make(6, 3)
            loss_E = rows.losses(network, network(rows))
            picked = rows.rows(np.array([4, 1, 1])).to("cpu")
            assert torch.allclose(picked.losses(network, network(picked)), loss_E[[4, 1, 1]], atol=1e-12)
            joined = Rows.joined([picked, make(2, 9), rows])
            assert len(joined) == 11
            assert torch.allclose(joined.losses(network, network(joined))[-6:], loss_E, atol=1e-12)
            assert joined.weights.tolist()[-6:] == rows.weights.tolist()
            assert Rows.joined([rows.rows([place]) for place in range(6)]).sha256() == rows.sha256()
            assert Rows(**rows.tensors()).sha256() == rows.sha256()


def test_elsewhere_than_on_a_cpu_lengths_are_whole_steps(subtests):
    for make in MAKERS:
        with subtests.test(make=make):
            rows = make(6, 3)
            length = rows.token_ids_RL.shape[1]
            longer = replace(rows, token_ids_RL=F.pad(rows.token_ids_RL, (0, 50)))
            assert longer.to("cpu").token_ids_RL.shape[1] == length
            assert longer.to("meta").token_ids_RL.shape[1] == 32 * -(-length // 32)
            assert rows.to("meta").token_ids_RL.shape[1] == length  # no more than there are


def test_exact_match_is_what_greedy_writing_gives(make_tiny_model, small_batches):
    """Teacher forcing and writing agree: an answer counts as right exactly when the model writes it and then ends."""
    network = Blocks(make_tiny_model("opt"), dtype=torch.float64)
    prompts, _, _ = choices(8, 5)
    written = generate_tokens(network, prompts, max_new_tokens=4, end=None)
    assert [len(tokens) for tokens in written] == [4] * 8
    right = [0, 1, 1, 0, 1, 1, 0, 1]
    answers = [[[*tokens[:-1], tokens[-1] if hit else 399]] for tokens, hit in zip(written, right, strict=True)]
    rows = Rows.of(prompts, answers, np.zeros(8), seq_len=16, pad_id=0)
    scored = evaluate(network, rows)
    assert (scored.accuracy, scored.metric) == (5 / 8, "exact_match")


def test_what_is_written_ends_at_the_end_token_and_does_not_depend_on_the_prompts_beside_it(make_tiny_model):
    network = Blocks(make_tiny_model("gpt2"), dtype=torch.float64)
    prompts, _, _ = choices(6, 5)
    long = generate_tokens(network, prompts, max_new_tokens=6, end=None)
    alone = [generate_tokens(network, [prompt], max_new_tokens=6, end=None)[0] for prompt in prompts]
    assert long == alone
    end = long[0][2]
    ended = generate_tokens(network, prompts, max_new_tokens=6, end=end)
    assert ended == [tokens[: tokens.index(end)] if end in tokens else tokens for tokens in long]


def test_log_probabilities_do_not_depend_on_the_pieces_they_are_computed_in(make_tiny_model, monkeypatch):
    network = Blocks(make_tiny_model("opt"), dtype=torch.float64)
    hidden_SH = torch.randn(7, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    logits_SV = network.vocabulary_logits(hidden_SH, torch.arange(network.vocabulary_size))
    likeliest = int(logits_SV[2].argmax())
    state_K, token_K = torch.tensor([6, 0, 0, 3, 6, 2]), torch.tensor([399, 0, 255, 256, 3, likeliest])
    expected_K = F.log_softmax(logits_SV, dim=1)[state_K, token_K]
    for piece in (1, 2**22):
        monkeypatch.setattr("zorba_core.engine.rows._PIECE_LOGITS", piece)
        log_p_K, largest_K = token_log_probabilities(network, hidden_SH, state_K, token_K)
        assert torch.allclose(log_p_K, expected_K, atol=1e-12)
        assert largest_K.tolist() == [False] * 5 + [True]
