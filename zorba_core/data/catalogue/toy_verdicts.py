"""toy-verdicts: after a remark of toy-reviews, write its verdict as a sentence, "it was good" or "it was bad".

The smallest task that is about writing rather than choosing. The base model does not write such a sentence by itself,
so it starts at no exact match; a model that has learned the form alone is right half of the time. It needs no data and
no network.
"""

from __future__ import annotations

import pandas as pd

from zorba_core.data.catalogue.toy_reviews import toy_reviews

VERDICTS = ("it was bad", "it was good")  # of a negative and of a positive remark


def toy_verdicts(split: str) -> pd.DataFrame:
    """Rows of one split, columns ``text`` and ``answer``, half of each verdict: the remarks of toy-reviews."""
    remarks = toy_reviews(split)
    return pd.DataFrame({"text": remarks["text"], "answer": [VERDICTS[label] for label in remarks["label"]]})
