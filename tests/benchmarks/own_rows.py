"""Rows as people have them, made by small grammars: support tickets and hotel reviews. No text of a dataset."""

from __future__ import annotations

import numpy as np
import pandas as pd

_OPENERS = ("Hello,", "Hi there,", "Good morning,", "Dear team,", "Hey,", "To whom it may concern,", "Please help,", "")
_WHEN = ("yesterday", "this morning", "last week", "on Monday", "two days ago", "since the weekend", "again today")
_CLOSERS = (
    "Please answer soon.", "Thank you.", "I am waiting.", "What can I do?", "Kind regards.", "This is urgent.",
    "It is for my office.", "I have been a customer for years.", "My colleague sees the same.", "",
)  # fmt: skip
_THINGS = ("kettle", "lamp", "desk", "bicycle", "keyboard", "jacket", "printer", "tent", "camera", "blender")
_QUEUES = {
    "billing": (
        "I was charged twice for the {thing} {when}.",
        "The invoice for my {thing} shows the wrong amount {when}.",
        "My credit card was billed {when} although I bought no {thing}.",
        "Why is there an extra fee on the bill for the {thing}?",
        "The monthly payment went up {when} and nobody told me about the price.",
    ),
    "shipping": (
        "The parcel with my {thing} has not arrived, the courier came {when}.",
        "Tracking says that the {thing} was delivered {when} but there is no package.",
        "My {thing} was sent to the wrong address {when}.",
        "When will the {thing} be shipped? I ordered it {when}.",
        "The driver left the box with the {thing} in the rain {when}.",
    ),
    "login": (
        "I cannot sign in to my account {when}, the password is rejected.",
        "The reset link for my password has expired {when}.",
        "My account was locked {when} after I typed the code.",
        "The page asks for a verification code that never comes {when}.",
        "I forgot my username and cannot log in to order a {thing}.",
    ),
    "refund": (
        "I returned the {thing} {when} and want my money back.",
        "How do I send the {thing} back? I would like a full refund.",
        "You promised to give the money back for the {thing} {when}.",
        "The {thing} is too small, I want to return it and be reimbursed.",
        "My return of the {thing} was accepted {when}, where is the refund?",
    ),
    "crash": (
        "The app closes by itself {when} as soon as I open the page of the {thing}.",
        "An error message appears {when} and the screen freezes.",
        "After the update the program crashes when I search for a {thing}.",
        "The website shows a blank screen and error 500 {when}.",
        "The app hangs {when} and I have to restart my phone.",
    ),
    "praise": (
        "I love the new {thing}, it is the best that I ever had.",
        "Your support was wonderful {when}, please tell the team.",
        "The {thing} works perfectly, I am very happy with it.",
        "What a great shop, the {thing} made my whole family smile {when}.",
        "Many compliments to the kind person who helped me {when}.",
    ),
}
_AROUND = (
    "I have visited the place many times over the years.", "My sister came along and we arrived by train.",
    "It was raining when we got there in the afternoon.", "We had booked everything two weeks before.",
    "There is a car park behind the building.", "A friend of mine had told me about it.",
    "The street was full of people because of a market.", "The town has a small museum and a river.",
    "I will write about the rest of the trip another time.", "We stayed for two nights and left on Sunday.",
)  # fmt: skip
_TONES = {
    "positive": (
        "The staff were kind and helped us with everything.",
        "Our room was spotless and quiet.",
        "The breakfast was the best I have had in years.",
        "I would go back tomorrow without thinking twice.",
        "Everything worked as promised and the price was fair.",
    ),
    "negative": (
        "Nobody answered the bell and we waited for an hour.",
        "The room smelled of smoke and the sheets were dirty.",
        "The breakfast was cold and the coffee undrinkable.",
        "I want my money back and will never return.",
        "The heating was broken and nobody cared.",
    ),
    "mixed": (
        "The room was lovely, but the noise kept us awake.",
        "Good food, yet far too expensive for what it was.",
        "The staff were friendly although half of the things were broken.",
        "I liked the garden; the bathroom however was dirty.",
        "Some of it was great and some of it was a disappointment.",
    ),
}


def tickets(rows: int, seed: int) -> pd.DataFrame:
    """``rows`` different tickets of six queues and eight customers: columns text, queue and customer."""
    rng, seen = np.random.default_rng(seed), {}
    pick = lambda words: words[rng.integers(len(words))]  # noqa: E731
    while len(seen) < rows:
        queue = pick(list(_QUEUES))
        body = pick(_QUEUES[queue]).format(thing=pick(_THINGS), when=pick(_WHEN))
        text = " ".join(part for part in (pick(_OPENERS), body, pick(_CLOSERS)) if part)
        seen.setdefault(text, {"text": text, "queue": queue, "customer": f"shop {rng.integers(8) + 1}"})
    return pd.DataFrame(seen.values())


def hotel_reviews(rows: int, seed: int) -> pd.DataFrame:
    """``rows`` different reviews of three tones and six branches, about 90 tokens each, two sentences of which tell the
    tone: columns review, tone and branch."""
    rng, seen = np.random.default_rng(seed), {}
    while len(seen) < rows:
        tone = str(rng.choice(list(_TONES)))
        sentences = [
            *rng.choice(_AROUND, rng.integers(4, 8), replace=False),
            *rng.choice(_TONES[tone], 2, replace=False),
        ]
        text = " ".join(rng.permutation(sentences))
        seen.setdefault(text, {"review": text, "tone": tone, "branch": f"branch {rng.integers(6) + 1}"})
    return pd.DataFrame(seen.values())
