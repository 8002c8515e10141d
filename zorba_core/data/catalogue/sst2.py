"""The halves of SST-2's training rows (its task is in sst2.toml).

Its training rows are phrases cut out of sentences. A row that no other row contains is a sentence, and a phrase goes to
the half where the sentences that it is cut from go. Short phrases found in sentences of both halves (one text in 23) go
by their own hash.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from zorba_core.data.cache import fingerprint, kept
from zorba_core.data.division import hash_says_base


def phrases_in_base(texts: list[str]) -> list[bool]:
    """The side of each phrase: its sentences' side where they agree, its own hash where they do not.

    From the longest text down, every run of words of a sentence is looked up among the texts: 1.7 million look-ups for
    SST-2, under a second.
    """
    sides: dict[str, set[bool]] = {text: set() for text in texts}
    for text in sorted(sides, key=lambda text: (-len(text), text)):
        if sides[text]:
            continue  # a phrase of a sentence seen before
        side = hash_says_base(text)
        spaces = [index for index, character in enumerate(text) if character == " "]
        starts, stops = [0, *(index + 1 for index in spaces)], [*spaces, len(text)]
        for first, start in enumerate(starts):
            for stop in stops[first:]:
                if (owners := sides.get(text[start:stop])) is not None:
                    owners.add(side)
    agreed = {text: next(iter(votes)) if len(votes) == 1 else hash_says_base(text) for text, votes in sides.items()}
    return [agreed[text] for text in texts]


def in_base(train: pd.DataFrame) -> list[bool]:
    """:func:`phrases_in_base`, kept for the next run."""
    texts = train["text"].tolist()
    arrays = kept("sst2-halves", fingerprint(texts), lambda: {"in_base": np.array(phrases_in_base(texts), dtype=bool)})
    return arrays["in_base"].tolist()
