"""Write tickets.csv: support tickets made from a small grammar, for `09_your_own_data`. `python make_tickets.py`.

No text of any dataset is in it. The same seed gives the same bytes.
"""

from __future__ import annotations

import csv
import random
from pathlib import Path

SEED, ROWS = 9, 720
TARGET = Path(__file__).with_name("tickets.csv")
OPENINGS = ("Hello,", "Good morning,", "Hi there,", "Dear team,", "Since yesterday", "Once again", "Today", "Urgent:")
ENDINGS = ("Please help.", "What can I do?", "Kind regards.", "This is urgent.", "Thank you.", "Any news?", "")
PRODUCTS = ("the desk lamp", "my order", "the kitchen scale", "the garden chair", "the radio", "the blue bag")
SAYINGS = {
    "money": (
        "I was charged twice for {}",
        "the invoice for {} shows the wrong amount",
        "please pay back what {} cost",
        "the price of {} on my bill is too high",
    ),
    "delivery": (
        "the parcel with {} has not arrived",
        "the courier left {} at the wrong address",
        "the shipment of {} is a week late",
        "tracking says that {} is still on its way",
    ),
    "repair": (
        "{} broke after two days",
        "a part of {} is cracked and does not work",
        "{} makes a loud noise and stops",
        "the switch of {} is defective",
    ),
    "account": (
        "I cannot log in to see {}",
        "my password is refused when I ask about {}",
        "my profile does not list {} any more",
        "the website locked me out while I looked at {}",
    ),
    "praise": (
        "I love {}, it is wonderful",
        "{} is the best that I ever bought",
        "we are delighted with {}",
        "great service, and {} is beautiful",
    ),
    "question": (
        "does {} come in another colour",
        "how tall is {}",
        "which batteries fit {}",
        "is there a manual for {}",
    ),
}
# Offices see different tickets: shares of the topics, in the order above.
OFFICES = {
    "Basel": (5, 3, 2, 1, 1, 1),
    "Graz": (1, 5, 3, 1, 1, 1),
    "Lyon": (1, 1, 5, 3, 1, 1),
    "Oslo": (1, 1, 1, 5, 3, 1),
    "Porto": (1, 1, 1, 1, 5, 3),
    "Turin": (3, 1, 1, 1, 1, 5),
}


def main() -> None:
    chance = random.Random(SEED)
    with TARGET.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["ticket", "office", "text", "topic"])
        for number in range(1, ROWS + 1):
            office = chance.choice(list(OFFICES))
            topic = chance.choices(list(SAYINGS), OFFICES[office])[0]
            saying = chance.choice(SAYINGS[topic]).format(chance.choice(PRODUCTS))
            text = " ".join(part for part in (chance.choice(OPENINGS), f"{saying}.", chance.choice(ENDINGS)) if part)
            writer.writerow([f"T{number:04}", office, text, topic])


if __name__ == "__main__":
    main()
