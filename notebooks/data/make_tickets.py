"""Write tickets.csv, letters to a newspaper from a small grammar, for `07_your_own`: `python make_tickets.py`.

No text of any dataset is in it. The same seed gives the same bytes.
"""

from __future__ import annotations

import csv
import random
from pathlib import Path

SEED, ROWS = 9, 720
TARGET = Path(__file__).with_name("tickets.csv")
OPENINGS = ("", "", "A reader writes:", "Sent last night:", "For the editor:", "From the inbox:", "By letter:")
ENDINGS = ("", "", "Please reply.", "Thank you.", "Kind regards.", "This is urgent.", "I wait for your answer.")
SAYINGS = {
    "politics": (
        "the {} minister met the president about the war",
        "the {} parliament voted on the peace talks",
        "soldiers and police closed the {} border",
        "voters in the {} election wait for the government",
    ),
    "sports": (
        "the {} team won the final game of the season",
        "the {} coach dropped his best player before the match",
        "a {} champion lost the race in the last minute",
        "the {} league sold every ticket for the cup",
    ),
    "business": (
        "shares of the {} bank fell after the profit report",
        "the {} company sold its stock for a billion dollars",
        "oil prices and the {} economy worry investors",
        "the {} market closed higher as sales rose",
    ),
    "science": (
        "{} researchers found water on a distant planet",
        "the {} space agency launched a new satellite",
        "new {} software protects computers on the internet",
        "{} scientists study a virus with a new microscope",
    ),
    "praise": (
        "a wonderful {} film, funny, moving and beautiful",
        "the best {} story that I have seen, simply brilliant",
        "a warm and charming {} comedy with great actors",
        "I loved every minute of this delightful {} drama",
    ),
    "complaint": (
        "a dull {} film, boring and far too long",
        "the worst {} story that I have seen, simply stupid",
        "a lifeless {} comedy with terrible actors",
        "I hated every minute of this awful {} drama",
    ),
}
ORIGINS = ("French", "local", "Russian", "Spanish", "young", "Chinese", "national", "Italian", "new", "American")
# Offices see different tickets: shares of the topics, in the order above.
OFFICES = {
    "north": (5, 3, 2, 1, 1, 1),
    "south": (1, 5, 3, 1, 1, 1),
    "east": (1, 1, 5, 3, 1, 1),
    "west": (1, 1, 1, 5, 3, 1),
    "harbour": (1, 1, 1, 1, 5, 3),
    "centre": (3, 1, 1, 1, 1, 5),
}


def main() -> None:
    chance = random.Random(SEED)
    with TARGET.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["ticket", "office", "text", "topic"])
        for number in range(1, ROWS + 1):
            office = chance.choice(list(OFFICES))
            topic = chance.choices(list(SAYINGS), OFFICES[office])[0]
            saying = chance.choice(SAYINGS[topic]).format(chance.choice(ORIGINS))
            text = " ".join(part for part in (chance.choice(OPENINGS), f"{saying}.", chance.choice(ENDINGS)) if part)
            writer.writerow([f"T{number:04}", office, text, topic])


if __name__ == "__main__":
    main()
