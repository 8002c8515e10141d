"""Reading an experiment for a notebook: what is there, said plainly, and nothing where nothing is."""

from __future__ import annotations

import pandas as pd
from IPython.display import Markdown

from zorba_core.errors import MissingDataError
from zorba_core.study.experiments import Results, read_results

ROOT = "../artifacts/experiments"


def results_of(name: str, profile: str = "standard") -> Results | None:
    """The experiment's runs, with a line on what they are; or None, with the line that says how to make them."""
    try:
        results = read_results(name, profile, ROOT)
    except MissingDataError as error:
        print(str(error).replace("../", ""))
        return None
    runs = results.runs
    if runs.empty:
        print(f"experiment {name}, profile {profile}: none of its runs is there; zorba experiment {name} makes them")
        for line in results.left_out:
            print("left out:", line)
        return None
    failed = int((runs["status"] != "finished").sum())
    machines = ", ".join(sorted(runs["machine"].dropna().unique()))
    print(f"experiment {name}, profile {profile}: {len(runs)} runs, {failed} of them diverged; {machines}")
    if results.missing:
        print(f"{results.missing} more are asked for and not run yet: zorba experiment {name} --profile {profile}")
    for line in results.left_out:
        print("left out:", line)
    return results


def protocol_of(runs: pd.DataFrame) -> pd.DataFrame:
    """What the runs have in common, and what they differ in."""
    columns = {
        "dataset": "data set",
        "model": "model",
        "num_clients": "clients N",
        "alpha": "Dirichlet α",
        "rounds": "rounds",
        "directions": "directions Q",
        "batch_size": "batch B",
        "lr": "learning rate η",
        "mu": "μ",
        "direction": "directions",
        "seed": "seeds",
    }
    shown = {
        title: ", ".join(
            f"{value:g}" if isinstance(value, float) else str(value) for value in sorted(runs[column].unique())
        )
        for column, title in columns.items()
    }
    notes = "; ".join(sorted(set(runs["data_note"].dropna()) - {""}))
    if notes:
        shown["note on the data"] = notes
    return pd.Series(shown).to_frame("these runs")


def counted(number: int, thing: str) -> str:
    """``1 run``, ``3 runs``."""
    return f"{number} {thing}" + ("" if number == 1 else "s")


def said(*lines: str) -> Markdown:
    """Sentences made from numbers, as text among the text."""
    return Markdown("\n\n".join(lines))
