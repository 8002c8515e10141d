"""Rows whose answers have several tokens: each estimator against the reference, and against transformers' own loss."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.engine.forward_mode import estimate_jvp
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.choice_rows import ChoiceRows
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.estimators.exact import estimate_exact
from zorba_core.engine.estimators.reference import batch_loss, estimate
from zorba_core.engine.evaluation import evaluate, label_log_probabilities
from zorba_core.engine.row_kinds import from_tensors, to_tensors
from zorba_core.engine.rows import Encoded
from zorba_core.engine.text_rows import NO_TOKEN, TextRows
from zorba_core.errors import InvalidInputError
from zorba_core.runs.generation import generate_tokens

SEEDS = [4, 2**32 - 1]


def text_rows(rows: int, seed: int) -> TextRows:
    rng = np.random.default_rng(seed)
    prompt_R, answer_R = rng.integers(2, 9, rows), rng.integers(1, 6, rows)
    ids_RL = np.zeros((rows, 16), dtype=np.int64)
    target_RT = np.full((rows, 7), NO_TOKEN)
    for row, (prompt, answer) in enumerate(zip(prompt_R, answer_R, strict=True)):
        tokens = rng.integers(2, 400, prompt + answer)
        ids_RL[row, : len(tokens) - 1] = tokens[:-1]
        target_RT[row, :answer] = tokens[prompt:]
    return TextRows(torch.from_numpy(ids_RL), torch.from_numpy(prompt_R - 1), torch.from_numpy(target_RT)).trimmed()


def choices(rows: int, seed: int) -> tuple[list[list[int]], list[list[tuple[int, ...]]], np.ndarray]:
    """Prompts, and answers that often start alike, two to four of one to three tokens."""
    rng = np.random.default_rng(seed)
    every = [(2,), (3, 2), (3, 3), (3, 4, 2), (3, 4, 3), (4, 2), (4, 3, 2)]
    answers = [[every[place] for place in rng.permutation(len(every))[: rng.integers(2, 5)]] for _ in range(rows)]
    return [rng.integers(2, 400, rng.integers(2, 9)).tolist() for _ in range(rows)], answers, rng.integers(0, 2, rows)


def choice_rows(rows: int, seed: int) -> ChoiceRows:
    return ChoiceRows.of(*choices(rows, seed), seq_len=16, pad_id=0).trimmed()


MAKERS = [text_rows, choice_rows]


def own_loss(network: Blocks, rows: TextRows) -> float:
    """transformers' loss of the whole sequences, their prompts masked."""
    length = int(rows.length_E.max()) + 1
    ids_RL = torch.zeros(len(rows), length, dtype=torch.long)
    labels_RL = torch.full_like(ids_RL, -100)
    for row, (last, target_T) in enumerate(zip(rows.prompt_R.tolist(), rows.target_RT, strict=True)):
        answer = target_T[target_T != NO_TOKEN]
        ids_RL[row, : last + 1] = rows.token_ids_RL[row, : last + 1]
        ids_RL[row, last + 1 : last + 1 + len(answer)] = answer
        labels_RL[row, last + 1 : last + 1 + len(answer)] = answer
    return float(network.model(ids_RL, labels=labels_RL).loss)


def test_the_loss_of_text_is_transformers_loss_of_labels(family, make_tiny_model):
    network = Blocks(make_tiny_model(family), [], dtype=torch.float64)
    for seed in range(3):
        rows = text_rows(5, seed)
        assert batch_loss(network, rows) == pytest.approx(own_loss(network, rows), abs=1e-6)
        assert evaluate(network, rows, batch_size=2).loss == pytest.approx(own_loss(network, rows), abs=1e-6)


def test_the_score_of_an_answer_is_the_sum_of_its_tokens_log_probabilities(family, make_tiny_model):
    network = Blocks(make_tiny_model(family), [], dtype=torch.float64)
    prompts, answers, label_E = choices(6, 0)
    scores = []
    for prompt, options in zip(prompts, answers, strict=True):
        whole = []
        for option in options:
            logits_LV = network.model(torch.tensor([[*prompt, *option]]), use_cache=False).logits[0].double()
            log_p = logits_LV.log_softmax(dim=-1)[len(prompt) - 1 : -1]
            whole.append(sum(log_p[step, token] for step, token in enumerate(option)))
        scores.append(torch.stack(whole))
    rows = ChoiceRows.of(prompts, answers, label_E, seq_len=16, pad_id=0)
    log_p_EC = label_log_probabilities(network, rows, batch_size=3)
    for log_p_C, score_C in zip(log_p_EC, scores, strict=True):
        assert log_p_C[: len(score_C)] == pytest.approx(score_C.log_softmax(0).numpy(), abs=1e-6)
        assert np.isinf(log_p_C[len(score_C) :]).all()
    expected = np.mean([-score.log_softmax(0)[label] for score, label in zip(scores, label_E, strict=True)])
    judged = evaluate(network, rows, batch_size=3)
    assert judged.loss == pytest.approx(expected, abs=1e-6)
    assert judged.accuracy == np.mean([int(s.argmax()) == label for s, label in zip(scores, label_E, strict=True)])


def test_answers_of_one_token_cost_one_row_and_score_as_label_words_do(make_tiny_model):
    words = [11, 250, 3]
    network = Blocks(make_tiny_model("opt"), words, dtype=torch.float64)
    prompts, _, _ = choices(5, 1)
    label_E = np.array([0, 2, 1, 1, 0])
    rows = ChoiceRows.of(prompts, [[(word,) for word in words]] * 5, label_E, seq_len=12, pad_id=0)
    assert len(rows.token_ids_RL) == 5
    one = Encoded(rows.token_ids_RL, rows.prompt_R, torch.from_numpy(label_E))
    assert batch_loss(network, rows) == pytest.approx(batch_loss(network, one), abs=1e-12)
    assert label_log_probabilities(network, rows) == pytest.approx(label_log_probabilities(network, one), abs=1e-12)


def test_answers_that_start_alike_share_a_row():
    """Each prompt is run once for each path to a last branching: 3 4 and 5, not once for each of six answers."""
    answers = [(2,), (3, 2), (3, 4, 2), (3, 4, 3), (5, 2), (5, 3)]
    rows = ChoiceRows.of([[7, 8]], [answers], np.array([0]), seq_len=4, pad_id=0)
    assert rows.token_ids_RL.tolist() == [[7, 8, 3, 4], [7, 8, 5, 0]]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("inactive", ["frozen", "dropped"])
def test_the_cohort_is_the_reference_for_every_family(family, make_tiny_model, make, inactive):
    network = Blocks(make_tiny_model(family), [], dtype=torch.float64)
    batches_N = [make(3 + n % 2, n) for n in range(5)]
    A_MN = np.random.default_rng(1).random((3, 5)) < 0.6
    directions = Directions("rademacher", network.sizes_M, dtype=torch.float64)
    probe = (network, batches_N, A_MN, SEEDS, directions)
    reference = estimate(*probe, mu=1e-3, inactive=inactive)
    cohort = estimate_cohort(*probe, mu=1e-3, inactive=inactive)
    scale = np.abs(reference.rho_NQ).max()
    assert np.abs(cohort.rho_NQ - reference.rho_NQ).max() <= 1e-10 * max(scale, 1)
    assert cohort.loss_N == pytest.approx(reference.loss_N, rel=1e-10)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("inactive", ["frozen", "dropped"])
def test_one_backward_pass_gives_the_derivatives_of_forward_mode(family, make_tiny_model, make, inactive):
    network = Blocks(make_tiny_model(family), [], dtype=torch.float64)
    batches_N = [make(3 + n % 2, n) for n in range(4)]
    A_MN = np.random.default_rng(1).random((3, 4)) < 0.6
    directions = Directions("rademacher", network.sizes_M, dtype=torch.float64)
    forward_mode = estimate_jvp(network, batches_N, A_MN, SEEDS, directions, inactive=inactive)
    scale = np.abs(forward_mode.rho_NQ).max()
    assert scale > 0.1
    backward = estimate_exact(network, batches_N, A_MN, SEEDS, directions, inactive=inactive)
    tolerance = 1e-5 if family == "llama" else 1e-10  # Llama's norms compute in float32 whatever they are given
    assert np.abs(backward.rho_NQ - forward_mode.rho_NQ).max() <= tolerance * scale
    assert backward.loss_N == pytest.approx(forward_mode.loss_N, rel=tolerance)


@pytest.mark.parametrize("make", MAKERS)
def test_rows_of_every_kind_are_chosen_joined_and_stored_without_change(make_tiny_model, make):
    network = Blocks(make_tiny_model("opt"), [], dtype=torch.float64)
    rows = make(6, 3)
    loss_E = rows.losses(network, network(rows))
    picked = rows.rows(np.array([4, 1, 1])).trimmed()
    assert torch.allclose(picked.losses(network, network(picked)), loss_E[[4, 1, 1]], atol=1e-12)
    joined = rows.joined([picked, make(2, 9), rows])
    assert len(joined) == 11
    assert torch.allclose(joined.losses(network, network(joined))[-6:], loss_E, atol=1e-12)
    assert joined.weights.tolist()[-6:] == rows.weights.tolist()
    assert rows.joined([rows.rows([place]) for place in range(6)]).sha256() == rows.sha256()
    again = from_tensors(to_tensors(rows))
    assert type(again) is type(rows)
    assert again.sha256() == rows.sha256()
    assert from_tensors({"ids": rows.token_ids_RL}) is None


@pytest.mark.parametrize("make", MAKERS)
def test_elsewhere_than_on_a_cpu_lengths_are_whole_steps(make):
    rows = make(6, 3)
    length = rows.token_ids_RL.shape[1]
    longer = replace(rows, token_ids_RL=torch.nn.functional.pad(rows.token_ids_RL, (0, 50)))
    assert longer.trimmed().token_ids_RL.shape[1] == length
    assert longer.trimmed("meta").token_ids_RL.shape[1] == 32 * -(-length // 32)
    assert rows.trimmed("meta").token_ids_RL.shape[1] == length  # no more than there are


def test_exact_match_is_what_greedy_writing_gives(make_tiny_model):
    """Teacher forcing and writing agree: an answer counts as right exactly when the model writes it and then ends."""
    network = Blocks(make_tiny_model("opt"), [], dtype=torch.float64)
    prompts, _, _ = choices(8, 5)
    written = generate_tokens(network, prompts, max_new_tokens=4, end=None)
    assert [len(tokens) for tokens in written] == [4] * 8
    right = [0, 1, 1, 0, 1, 1, 0, 1]
    target_RT = torch.tensor(
        [[*tokens[:-1], tokens[-1] if hit else 399] for tokens, hit in zip(written, right, strict=True)]
    )
    ids = [[*prompt, *target[:-1]] for prompt, target in zip(prompts, target_RT.tolist(), strict=True)]
    ids_RL = torch.tensor([row + [0] * (16 - len(row)) for row in ids])
    rows = TextRows(ids_RL, torch.tensor([len(prompt) - 1 for prompt in prompts]), target_RT)
    judged = evaluate(network, rows, batch_size=3)
    assert (judged.accuracy, judged.metric) == (5 / 8, "exact_match")
    assert judged.perplexity == pytest.approx(np.exp(judged.loss))


def test_what_is_written_ends_at_the_end_token_and_does_not_depend_on_the_prompts_beside_it(make_tiny_model):
    network = Blocks(make_tiny_model("gpt2"), [], dtype=torch.float64)
    prompts, _, _ = choices(6, 5)
    long = generate_tokens(network, prompts, max_new_tokens=6, end=None)
    alone = [generate_tokens(network, [prompt], max_new_tokens=6, end=None)[0] for prompt in prompts]
    assert long == alone
    end = long[0][2]
    ended = generate_tokens(network, prompts, max_new_tokens=6, end=end)
    assert ended == [tokens[: tokens.index(end)] if end in tokens else tokens for tokens in long]
    with pytest.raises(InvalidInputError, match="more than the model's 64 positions"):
        generate_tokens(network, prompts, max_new_tokens=60, end=None)


def test_log_probabilities_do_not_depend_on_the_pieces_they_are_computed_in(make_tiny_model, monkeypatch):
    from zorba_core.engine import vocabulary

    network = Blocks(make_tiny_model("opt"), [], dtype=torch.float64)
    hidden_SH = torch.randn(7, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    state_K, token_K = torch.tensor([6, 0, 0, 3, 6, 2]), torch.tensor([399, 0, 255, 256, 3, 17])
    logits_SV = network.vocabulary_logits(hidden_SH, torch.arange(network.vocabulary_size))
    expected_K = F.log_softmax(logits_SV, dim=1)[state_K, token_K]
    for states, piece in itertools.product((2, 4096), (1, 2**22)):
        monkeypatch.setattr(vocabulary, "_STATES_AT_ONCE", states)
        monkeypatch.setattr(vocabulary, "_PIECE_LOGITS", piece)
        assert torch.allclose(
            vocabulary.log_probabilities(network, hidden_SH, state_K, token_K), expected_K, atol=1e-12
        )
        assert torch.equal(vocabulary.most_likely(network, hidden_SH), logits_SV.argmax(dim=1))
