"""What the answers of a task ask of a pass, for counting memory and time. No torch.

Shapes: B rows of a client, R rows that go through the blocks, P positions read of each, V vocabulary, S = R P states.
"""

from __future__ import annotations

from dataclasses import dataclass

# Numbers of a piece's logits and of its part of the head (16 MiB each in float64), and hidden states at once.
_PIECE_LOGITS, _PIECE_HEAD, STATES_AT_ONCE = 2**21, 2**21, 4096
_LEAST_PIECE = 256  # vocabulary rows
_FLOAT64 = 8


def piece_rows(states: int, width: int) -> int:
    """Rows of the vocabulary that :mod:`zorba_core.engine.vocabulary` computes at once, for so many hidden states of
    this width."""
    return max(_LEAST_PIECE, min(_PIECE_LOGITS // max(min(states, STATES_AT_ONCE), 1), _PIECE_HEAD // width))


@dataclass(frozen=True)
class AnswerShape:
    """Rows and positions of an example's answers."""

    rows: int = 1  # of an example, at most
    positions: int = 1  # read of each row, at most
    whole_vocabulary: bool = False  # at these positions; else logits of the label words alone

    def states(self, rows: int) -> int:
        """S of so many rows that go through the blocks: where a token of an answer is predicted."""
        return rows * self.positions

    def logit_bytes(self, rows: int, vocabulary: int, width: int) -> int:
        """Of the widest piece of the vocabulary's logits, with its part of the head and its states, in float64."""
        if not self.whole_vocabulary:
            return 0
        states = min(self.states(rows), STATES_AT_ONCE)
        piece = min(piece_rows(states, width), vocabulary)
        # The head's rows are freed before the logits' exponentials are made.
        return _FLOAT64 * (states * (piece + width) + piece * max(width, states))


LABEL_WORDS = AnswerShape()  # of one token each
