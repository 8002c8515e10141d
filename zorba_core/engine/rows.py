"""Rows of text as tokens, for training and evaluation.

An example is a prompt and its *candidates*: the possible answers, one of which is right. A row is a prompt with the
beginning of an answer. For the examples E of client n, the engine computes the loss by two functions of rows:

    final_RPH = rows.read(hidden_RLH)                                hidden states after the last block that it needs
    F_n = sum(rows.losses(network, final_RPH)) / sum(rows.weights)   float64

There are three cases.

- Label words of one token each: a row is the prompt alone. The loss needs its last position and the logits of the label
  words, which are stored once (``words_C``); examples have no candidates of their own.
- Labels or options of several tokens: a candidate's score is the sum (or the mean) of its tokens' log-probabilities,
  and the loss is the cross-entropy over the scores. (With one token each this equals the first case, because the same
  term cancels in all scores.) A candidate's last token is predicted but not read, so candidates that differ in their
  last token share a row.
- A written answer: one candidate, which ends with the end-of-text token. The loss is the mean cross-entropy of the
  tokens of all answers, as ``transformers`` computes it from ``labels=``.

A model may prefer some label words for every text. The scores in the loss, the evaluation and predictions are therefore
minus ``prior_C`` (:func:`zorba_core.engine.evaluation.label_prior`).

A preference that all rows share also limits training: a step that is a little too long changes it for every row at
once. The *centred* loss (``batch_E``) is free of it. It subtracts from each row's log-probabilities their mean over the
rows of the client's batch:

    log_p_EC   = log_softmax(scores_EC)
    centred_EC = log_p_EC - mean over the batch's rows of log_p_EC
    loss_E     = cross_entropy(centred_EC, label_E)

A change that is the same for all rows of a batch then changes no loss, so its derivative is exactly zero. A batch of
one row has the loss log C and no gradient at all. At inference the mean over training rows takes the place of the
batch's mean (Batch Calibration: Zhou et al., 2024, arXiv:2309.17249); here it is the training loss too.

Attention is causal and rows are padded on the right, so no attention mask is needed.

Shapes: E examples, R rows, A candidates of all examples, C candidates of one example, L positions of a row, T tokens
of the longest candidate, P = max(T, 1) positions read of each row, H hidden size, S hidden states, K tokens of all
candidates, V vocabulary rows.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple, Protocol, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn import functional as F

NO_TOKEN = -1  # padding of a candidate
_STEP_ELSEWHERE = 32  # on GPUs, lengths of rows are multiples of it
# Limits of a piece of the vocabulary: numbers of its logits and of its part of the head (float64, 16 MiB each), and the
# least number of vocabulary rows.
_PIECE_LOGITS, _PIECE_HEAD, _LEAST_PIECE = 2**21, 2**21, 256

Tokens = Sequence[int]
Prior = Sequence[float] | np.ndarray  # C numbers, or none


class Network(Protocol):
    """The part of :class:`zorba_core.engine.blocks.Blocks` that rows use; that module imports this one."""

    @property
    def vocabulary_size(self) -> int: ...

    def vocabulary_logits(self, hidden_SH: Tensor, token_ids_V: Tensor) -> Tensor: ...


class Examples(Protocol):
    """Rows to draw batches from: :class:`Rows`, or those of a large table, which are encoded when they are drawn
    (:class:`zorba_core.data.encode.RowsOnDemand`)."""

    @property
    def answers(self) -> int: ...

    @property
    def largest_token(self) -> int: ...

    def __len__(self) -> int: ...

    def rows(self, index_B: np.ndarray | Tensor) -> Rows: ...

    def with_prior(self, prior: Prior) -> Self: ...


class Scored(NamedTuple):
    """Sums over examples."""

    loss: float  # nats
    weight: float  # the mean loss is loss / weight
    right: int


@dataclass(frozen=True, eq=False)
class Rows:
    """Examples, each with one or more rows and candidates. Rows and candidates are in the order of the examples.

    All tensors but the prior are int64.
    """

    token_ids_RL: Tensor  # padded on the right
    last_R: Tensor  # index of the prompt's last token, after which the answer begins
    label_E: Tensor  # index of the right candidate, 0..C-1
    rows_E: Tensor  # number of rows of each example
    answers_E: Tensor  # number of candidates of each example; 0: the candidates are ``words_C``
    row_A: Tensor  # index of the candidate's row within its example
    target_AT: Tensor  # the candidate's tokens, then NO_TOKEN
    divisor_A: Tensor  # divides the sum of the tokens' log-probabilities: 1, or the number of tokens
    words_C: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))  # label words of one token each
    prior_C: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.float64))  # empty: zeros
    batch_E: Tensor = field(
        default_factory=lambda: torch.zeros(0, dtype=torch.int64)
    )  # of the example; empty: not centred

    @staticmethod
    def of_words(token_ids_RL: Tensor, last_R: Tensor, label_E: Tensor, words: Tokens) -> Rows:
        """Rows with label words of one token each; ``label_E`` has the index of the right word."""
        one_E, words_C = torch.ones_like(last_R), torch.as_tensor(words, dtype=torch.int64, device=last_R.device)
        none_A, none_AT = one_E[:0], one_E.new_zeros(0, 0)
        return Rows(token_ids_RL, last_R, label_E, one_E, one_E * 0, none_A, none_AT, none_A, words_C)

    @staticmethod
    def of(
        prompts: Sequence[Tokens],
        answers: Sequence[Sequence[Tokens]],
        label_E: np.ndarray,
        seq_len: int,
        pad_id: int,
        *,
        mean: bool = False,
    ) -> Rows:
        """Rows from the tokens of each example's prompt and candidates, padded to ``seq_len``.

        Args:
            answers: candidates of each example. No candidate may be the beginning of another one of the same example.
            mean: a candidate's score is the mean of its tokens' log-probabilities, not their sum.
        """
        words = [tokens[0] for tokens in answers[0] if len(tokens) == 1]
        if len(words) == len(answers[0]) > 1 and all(candidates == answers[0] for candidates in answers):
            table_RL, last_R = _padded(prompts, seq_len, pad_id), [len(prompt) - 1 for prompt in prompts]
            return Rows.of_words(_int64(table_RL), _int64(last_R), _int64(label_E), words)
        sequences: list[list[int]] = []
        last_R, rows_E, row_A, targets = [], [], [], []
        for prompt, candidates in zip(prompts, answers, strict=True):
            paths, rows = _paths(tuple(map(tuple, candidates)))
            sequences += [[*prompt, *path] for path in paths]
            last_R += [len(prompt) - 1] * len(paths)
            rows_E.append(len(paths))
            row_A += rows
            targets += candidates
        answers_E = [len(candidates) for candidates in answers]
        ids_RL = _padded(sequences, seq_len, pad_id)
        target_AT = _padded(targets, max(map(len, targets), default=0), NO_TOKEN)
        divisor_A = [len(target) if mean else 1 for target in targets]
        columns = (ids_RL, last_R, label_E, rows_E, answers_E, row_A, target_AT, divisor_A)
        return Rows(*map(_int64, columns))

    def __len__(self) -> int:
        return len(self.label_E)

    @property
    def one_token(self) -> bool:
        """Whether the candidates of all examples are the same label words of one token each."""
        return len(self.words_C) > 0

    @functools.cached_property
    def written(self) -> bool:
        """Whether answers are written, not chosen among several candidates."""
        return bool((self.answers_E == 1).all())

    @property
    def answers(self) -> int:
        """C, the most answers that an example chooses among; 1 for written answers."""
        return len(self.words_C) if self.one_token else int(self.answers_E.max())

    @property
    def metric(self) -> str:
        """``exact_match`` for written answers, else ``accuracy``."""
        return "exact_match" if self.written else "accuracy"

    @property
    def weights(self) -> np.ndarray:
        """Each example's weight in the mean loss, (E,), float64: the number of tokens of a written answer, else 1."""
        return self._tokens_A.cpu().numpy().astype(np.float64) if self.written else np.ones(len(self))

    @functools.cached_property
    def first_row_E(self) -> Tensor:
        """Index of the first row of each example."""
        return self.rows_E.cumsum(0) - self.rows_E

    @property
    def length_E(self) -> Tensor:
        """Number of positions that each example needs."""
        if self.one_token:
            return self.last_R + 1
        end_A = self.last_R[self._row_of_A] + self._tokens_A
        example_A = torch.repeat_interleave(torch.arange(len(self), device=end_A.device), self.answers_E)
        return torch.zeros_like(self.label_E).scatter_reduce(0, example_A, end_A, "amax")

    @property
    def largest_token(self) -> int:
        """The largest token id of prompts, padding and candidates."""
        return max(int(part.max()) for part in (self.token_ids_RL, self.target_AT, self.words_C) if part.numel())

    def rows(self, index_B: np.ndarray | Tensor) -> Rows:
        """The given examples, in the given order."""
        index_B = torch.as_tensor(index_B, dtype=torch.int64)
        row = _spans(self.first_row_E[index_B], self.rows_E[index_B])
        first_answer_E = self.answers_E.cumsum(0) - self.answers_E
        answer = _spans(first_answer_E[index_B], self.answers_E[index_B])
        return Rows(
            self.token_ids_RL[row],
            self.last_R[row],
            self.label_E[index_B],
            self.rows_E[index_B],
            self.answers_E[index_B],
            self.row_A[answer],
            self.target_AT[answer],
            self.divisor_A[answer],
            self.words_C,
            self.prior_C,
            torch.zeros_like(index_B) if len(self.batch_E) else self.batch_E,  # they are one batch
        )

    def with_prior(self, prior: Prior) -> Rows:
        """The same examples, with these numbers subtracted from the scores."""
        return replace(self, prior_C=torch.as_tensor(prior, dtype=torch.float64))

    def centred(self) -> Rows:
        """The same examples as one batch with the centred loss. They need the same label words."""
        return replace(self, batch_E=torch.zeros_like(self.label_E))

    @staticmethod
    def joined(parts: Sequence[Rows], device: torch.device | str = "cpu") -> Rows:
        """All examples of ``parts``, in their order, padded to the longest."""
        columns = {part.name: [getattr(rows, part.name) for rows in parts] for part in fields(Rows)}
        columns["token_ids_RL"] = _as_wide(columns["token_ids_RL"], 0)
        columns["target_AT"] = _as_wide(columns["target_AT"], NO_TOKEN)
        columns |= {name: columns[name][:1] for name in ("words_C", "prior_C")}
        columns["batch_E"] = [batch_E + place for place, batch_E in enumerate(columns["batch_E"])]  # a batch each
        return Rows(**{name: torch.cat(column).to(device) for name, column in columns.items()})

    def to(self, device: torch.device | str) -> Rows:
        """The same examples on a device, without the positions that are padding in all of them."""
        length, most = int(self.length_E.max()), 0 if self.one_token else int(self._tokens_A.max())
        if torch.device(device).type != "cpu":  # fewer different lengths, so fewer and larger kernels
            length = -(-length // _STEP_ELSEWHERE) * _STEP_ELSEWHERE
        short = replace(self, token_ids_RL=self.token_ids_RL[:, :length], target_AT=self.target_AT[:, :most])
        return Rows(**{name: part.to(device) for name, part in short.tensors().items()})

    def tensors(self) -> dict[str, Tensor]:
        """All fields by name: ``Rows(**rows.tensors())`` are the same rows."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def sha256(self) -> str:
        """SHA-256 of the tokens and labels."""
        parts = (self.label_E, self.rows_E, self.answers_E, self.row_A, self.target_AT, self.divisor_A)
        parts = (self.label_E,) if self.one_token else (self.target_AT,) if self.written else parts
        digest = hashlib.sha256()
        for part in (self.token_ids_RL, self.last_R, *parts):
            digest.update(f"{tuple(part.shape)}".encode())
            digest.update(part.contiguous().numpy().data)
        return digest.hexdigest()

    def read(self, hidden_RLH: Tensor, rows: slice | Tensor = slice(None)) -> Tensor:
        """The hidden states after the last block that the loss needs, (R, P, H): P positions of each row, from the
        prompt's last one on."""
        step_P = torch.arange(max(self.target_AT.shape[1], 1), device=hidden_RLH.device)
        position_RP = (self.last_R[rows][:, None] + step_P).clamp(max=hidden_RLH.shape[1] - 1)
        return hidden_RLH[torch.arange(len(position_RP), device=hidden_RLH.device)[:, None], position_RP]

    def scores(self, network: Network, final_RPH: Tensor) -> Tensor:
        """Each candidate's score minus its prior, (E, C), float64: its log-probability plus a constant of the example;
        -inf where an example has fewer candidates."""
        if self.one_token:
            score_EC = network.vocabulary_logits(final_RPH[:, 0], self.words_C)
        else:
            score_A = self._candidates(network, final_RPH)[0] / self.divisor_A
            there_EC = torch.arange(int(self.answers_E.max()), device=score_A.device) < self.answers_E[:, None]
            score_EC = score_A.new_full(there_EC.shape, float("-inf")).masked_scatter(there_EC, score_A)
        return score_EC - self.prior_C if len(self.prior_C) else score_EC

    def losses(self, network: Network, final_RPH: Tensor) -> Tensor:
        """Each example's training loss, (E,), float64: the cross-entropy over its candidates, centred if the rows are,
        or the sum of the cross-entropies of its written answer's tokens."""
        if self.written:
            return -self._candidates(network, final_RPH)[0]
        score_EC = self.scores(network, final_RPH)
        if len(self.batch_E):
            score_EC = _without_batch_means(score_EC.log_softmax(dim=1), self.batch_E)
        return F.cross_entropy(score_EC, self.label_E, reduction="none")

    def scored(self, network: Network, final_RPH: Tensor) -> Scored:
        """The sum of the losses, the sum of the weights, and the number of examples that are right: the right candidate
        has the largest score, or greedy decoding writes all tokens of the answer and its end."""
        if self.written:
            log_p_E, greedy_E = self._candidates(network, final_RPH)
            return Scored(-float(log_p_E.sum()), float(self.weights.sum()), int(greedy_E.sum()))
        score_EC = self.scores(network, final_RPH)
        loss = float(F.cross_entropy(score_EC, self.label_E, reduction="sum"))
        return Scored(loss, float(len(self)), int((score_EC.argmax(dim=1) == self.label_E).sum()))

    @property
    def _tokens_A(self) -> Tensor:
        return (self.target_AT != NO_TOKEN).sum(dim=1)

    @property
    def _row_of_A(self) -> Tensor:
        """Index of each candidate's row among all rows."""
        return torch.repeat_interleave(self.first_row_E, self.answers_E) + self.row_A

    def _candidates(self, network: Network, final_RPH: Tensor) -> tuple[Tensor, Tensor]:
        """For each candidate the sum of its tokens' log-probabilities, float64, and whether greedy decoding writes it:
        (A,) each."""
        answer_K, step_K = torch.nonzero(self.target_AT != NO_TOKEN, as_tuple=True)
        place_K = self._row_of_A[answer_K] * self.target_AT.shape[1] + step_K
        place_S, state_K = torch.unique(place_K, return_inverse=True)
        state_SH, token_K = final_RPH.flatten(0, 1)[place_S], self.target_AT[answer_K, step_K]
        log_p_K, largest_K = token_log_probabilities(network, state_SH, state_K, token_K)
        log_p_A = log_p_K.new_zeros(len(self.target_AT)).index_add(0, answer_K, log_p_K)
        missed_A = torch.zeros(len(log_p_A), dtype=torch.int64, device=log_p_A.device)
        return log_p_A, missed_A.index_add(0, answer_K, (~largest_K).long()) == 0


def _without_batch_means(log_p_EC: Tensor, batch_E: Tensor) -> Tensor:
    """``log_p_EC`` minus its mean over the examples of each batch."""
    count_B = torch.bincount(batch_E)
    sum_BC = log_p_EC.new_zeros(len(count_B), log_p_EC.shape[1]).index_add(0, batch_E, log_p_EC)
    return log_p_EC - (sum_BC / count_B[:, None])[batch_E]


def token_log_probabilities(
    network: Network, hidden_SH: Tensor, state_K: Tensor, token_K: Tensor
) -> tuple[Tensor, Tensor]:
    """log p(token k | state k) over the whole vocabulary, float64, and whether it is the largest: (K,) each.
    ``state_K`` has the index of the hidden state before each token."""
    total_S = torch.full((len(hidden_SH),), float("-inf"), dtype=torch.float64, device=hidden_SH.device)
    best_S, logit_K = total_S, torch.zeros(len(token_K), dtype=torch.float64, device=hidden_SH.device)
    for start, logits_SV in _pieces(network, hidden_SH):
        total_S = torch.logaddexp(total_S, logits_SV.logsumexp(dim=1))
        best_S = torch.maximum(best_S, logits_SV.detach().amax(dim=1))
        here_K = torch.nonzero((token_K >= start) & (token_K < start + logits_SV.shape[1]))[:, 0]
        logit_K = logit_K.index_copy(0, here_K, logits_SV[state_K[here_K], token_K[here_K] - start])
    return logit_K - total_S[state_K], logit_K >= best_S[state_K]


def _pieces(network: Network, hidden_SH: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Yield the logits of the vocabulary in pieces of V rows, (S, V), with the index of the first row, so that neither
    all logits nor a float64 copy of the whole head are in memory."""
    states, width = hidden_SH.shape
    count = max(_LEAST_PIECE, min(_PIECE_LOGITS // max(states, 1), _PIECE_HEAD // width))
    for token_ids_V in torch.arange(network.vocabulary_size, device=hidden_SH.device).split(count):
        yield int(token_ids_V[0]), network.vocabulary_logits(hidden_SH, token_ids_V)


def _int64(values: ArrayLike) -> Tensor:
    return torch.from_numpy(np.array(values, dtype=np.int64))


def _padded(sequences: Sequence[Tokens], length: int, value: int) -> np.ndarray:
    """The sequences as one table, int64, padded on the right."""
    table = np.full((len(sequences), length), value, dtype=np.int64)
    for row, tokens in enumerate(sequences):
        table[row, : len(tokens)] = tokens
    return table


@functools.lru_cache(maxsize=64)
def _paths(candidates: tuple[tuple[int, ...], ...]) -> tuple[list[tuple[int, ...]], list[int]]:
    """The tokens of each row after the prompt, so that every token of the candidates is predicted: each candidate
    without its last token, unless a longer one begins with it. Also the index of each candidate's row."""
    paths: list[tuple[int, ...]] = []
    for path in sorted({candidate[:-1] for candidate in candidates}, key=lambda path: (-len(path), path)):
        if not any(longer[: len(path)] == path for longer in paths):
            paths.append(path)
    serves = [[path[: len(candidate) - 1] == candidate[:-1] for path in paths] for candidate in candidates]
    return paths, [row.index(True) for row in serves]


def _as_wide(tables: Sequence[Tensor], value: int) -> list[Tensor]:
    """Tables of (rows, columns), padded on the right to the widest."""
    widest = max(table.shape[1] for table in tables)
    return [F.pad(table, (0, widest - table.shape[1]), value=value) for table in tables]


def _spans(start_B: Tensor, count_B: Tensor) -> Tensor:
    """The ranges start, start + 1, ..., start + count - 1, one after another."""
    shift_B = start_B - (count_B.cumsum(0) - count_B)
    return torch.repeat_interleave(shift_B, count_B) + torch.arange(int(count_B.sum()), device=count_B.device)
