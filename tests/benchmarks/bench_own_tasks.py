"""Is ``gain`` faster than the paper's allocation on tasks that it was not made for?

    ZORBA_DATA=... python -m tests.benchmarks.bench_own_tasks WORK [--workers 2] [--out FILE]

The plan stands in ``artifacts/benchmarks/own_tasks.md``, older than the runs. Nine tasks made of public rows as people
make theirs (a column of text, a column of label words, everything else inferred), each on two base models; what the
blocks are worth is read of the scalars of one run on other rows; every arm at its own best rate. WORK keeps finished
runs.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from zorba_core.checksums import read_sealed, write_sealed
from zorba_core.study.experiments.firmness import firmness
from zorba_core.study.experiments.recipes import Recipe
from zorba_core.study.experiments.speed import pooled_speed, speed
from zorba_core.study.experiments.statistics import first_reached, mean_interval

DEFAULT_FILE = Path("artifacts/benchmarks/own_tasks.json")
MODELS = ("opt-mini", "llama-mini")
ARMS = ("paper", "gain")
CLIENTS, HOLD_BACK, ROUNDS, TELLING_ROUNDS = 20, 0.5, 12, 24
TELLING_RATE, TELLING_SEED = 5e-3, 2000
RATES = (2.5e-3, 5e-3, 1e-2, 2e-2, 4e-2, 8e-2)
LEAST_RATE, LARGEST_RATE = 2.5e-3 / 8, 8e-2 * 8
TRIAL_SEEDS, SEEDS = (1000, 1001), tuple(range(10))
ROWS, OTHER_ROWS, CHARACTERS = 2_000, 1_000, 130
LATE = (9, 12)  # rounds
LEAST_LOST = 0.02
SETTINGS: dict[str, Any] = {
    "num_perturbations": 10, "batch_size": 2, "seq_len": 40, "direction": "rademacher", "estimator": "exact",
    "eval_rows": 200, "target": None,
}  # fmt: skip
# What a run is to reach: (share of the loss that the paper's trials lost, whether only what they lost beyond equal odds
# of the answers counts). The first decides.
TARGETS = {"to 70 %": (0.7, False), "to 90 %": (0.9, False), "to 70 % beyond equal odds": (0.7, True)}
AG_NEWS = ("world", "sports", "business", "science")
KNOWN = ("world/sports", "business/science")  # tried, in rows and words much like these, before the plan was written


class Request(NamedTuple):
    """A run by its name in WORK."""

    task: str
    model: str
    arm: str  # or "telling"
    lr: float
    seed: int

    @property
    def name(self) -> str:
        return f"{self.task.replace('/', '-')}-{self.model}-{self.arm}-{self.lr:g}-{self.seed}"


Found = dict[Request, dict[str, Any]]


def _news(*kinds: str) -> pd.DataFrame:
    rows = _table("ag_news/train")
    rows = rows.assign(label=[AG_NEWS[label] for label in rows["label"]])
    return rows[rows["label"].isin(kinds)]


def _kinds(**files: str) -> pd.DataFrame:
    """Rows of the corpus; the label is the file that they are of."""
    return pd.concat([_table(f"corpus/{file}")[["text"]].assign(label=word) for word, file in files.items()])


def _pairs() -> pd.DataFrame:
    rows = _table("snli/train")
    rows = rows[rows["label"] != 1]
    text = rows["premise"] + " / " + rows["hypothesis"]
    return pd.DataFrame({"text": text, "label": ["yes" if label == 0 else "no" for label in rows["label"]]})


def _table(name: str) -> pd.DataFrame:
    return pd.read_parquet(Path(os.environ["ZORBA_DATA"]) / f"{name}.parquet")


TASKS: dict[str, Callable[[], pd.DataFrame]] = {
    **{f"{a}/{b}": lambda a=a, b=b: _news(a, b) for i, a in enumerate(AG_NEWS) for b in AG_NEWS[i + 1 :]},
    "novel/speech/article": lambda: _kinds(
        novel="english_novels", speech="brown_and_speeches", article="dbpedia_abstracts"
    ),
    "film/product": lambda: _kinds(film="imdb_reviews", product="yelp_amazon_reviews"),
    "yes/no": _pairs,
}


def rows_of(task: str, *, telling: bool) -> pd.DataFrame:
    """As many rows of each label; those of the telling run are of nobody else."""
    frame, chosen = TASKS[task](), []
    labels = sorted(frame["label"].unique())
    for label in labels:
        rows = frame[frame["label"] == label]
        order = np.random.default_rng([71, list(TASKS).index(task)]).permutation(len(rows))
        first, count = (ROWS, OTHER_ROWS) if telling else (0, ROWS)
        chosen.append(rows.iloc[order[first // len(labels) : (first + count) // len(labels)]])
    both = pd.concat(chosen)
    text = both["text"].str.split().str.join(" ").str[:CHARACTERS]
    return pd.DataFrame({"text": text, "label": both["label"]}).reset_index(drop=True)


def do(request: Request, work: str) -> dict[str, Any]:
    """One run, kept in WORK as JSON."""
    done = Path(work) / f"{request.name}.json"
    if done.is_file():
        return read_sealed(done)
    from zorba_core.engine.settings import TrainSettings
    from zorba_core.errors import RunError
    from zorba_core.runs import importance, read_run
    from zorba_core.runs.session import fine_tune

    telling = request.arm == "telling"
    changes = {"rounds": ROUNDS, "eval_every": 3 if request.seed in TRIAL_SEEDS else 1}
    if telling:
        changes = {"rounds": TELLING_ROUNDS, "vary": "rotate", "eval_every": TELLING_ROUNDS}
    settings = TrainSettings(**SETTINGS, **changes, lr=request.lr, seed=request.seed, threads=1)
    with tempfile.TemporaryDirectory() as folder:
        try:
            run = fine_tune(
                _recipe(request, work).build(), data=rows_of(request.task, telling=telling), text="text", label="label",
                model=request.model, settings=settings, runs_folder=folder, name="run", force=True,
            )  # fmt: skip
            reason = ""
        except RunError as error:
            run, reason = read_run(next(Path(folder).iterdir())), str(error).split(";")[0]
        points = run.evaluations
        content = {
            **request._asdict(),
            "reason": reason,
            "round": points["round"].tolist(),
            "loss": points["eval_loss"].tolist(),
            "accuracy": points["eval_accuracy"].tolist(),
            "label_words": run.config["label_words"],
            "train_sha256": run.environment["data"]["train_sha256"],
            "git_commit": run.environment["git_commit"],
        }
        if telling:
            worth = importance(run)
            facts = worth.facts()
            content |= {
                "energies": facts.energy_M, "noises": facts.noise_M, "identifiable": bool(worth.identifiable_M.all())
            }  # fmt: skip
        else:
            content["weights_sha256"] = None if reason else run.summary["weights_sha256"]
            content["blocks"] = _recipe(request, work).build().popularity_M
    write_sealed(done, content)
    return read_sealed(done)


def _recipe(request: Request, work: str) -> Recipe:
    changes: dict[str, Any] = {
        "solver": {"paper": "lexicographic", "telling": "balanced"}.get(request.arm, request.arm)
    }
    if request.arm == "gain":
        told = read_sealed(Path(work) / f"{telling_of(request.task, request.model).name}.json")
        changes |= {"energies": tuple(told["energies"]), "noises": tuple(told["noises"])}
    return Recipe("solver", CLIENTS, draw=request.seed, hold_back=HOLD_BACK, **changes)


def telling_of(task: str, model: str) -> Request:
    return Request(task, model, "telling", TELLING_RATE, TELLING_SEED)


def late_loss(run: dict[str, Any]) -> float:
    """Mean of the evaluations after rounds ``LATE``; infinite of a run that diverged."""
    late = [loss for when, loss in zip(run["round"], run["loss"], strict=True) if when in LATE]
    return math.inf if run["reason"] or None in late or not late else float(np.mean(late))


def best_rate(found: Found, task: str, model: str, arm: str) -> tuple[float | None, list[float]]:
    """(the rate of the lowest mean late loss, None until it is known; rates still to try). Where the best is at an end,
    half or twice as much is tried too."""
    by_rate: dict[float, list[float]] = {}
    for request, run in found.items():
        if request[:3] == (task, model, arm) and request.seed in TRIAL_SEEDS:
            by_rate.setdefault(request.lr, []).append(late_loss(run))
    tried = {rate: float(np.mean(losses)) for rate, losses in by_rate.items() if len(losses) == len(TRIAL_SEEDS)}
    missing = [rate for rate in RATES if rate not in tried]
    if missing:
        return None, missing
    best = min(sorted(tried), key=tried.__getitem__)
    if best == min(tried) and best > LEAST_RATE:
        return None, [best / 2]
    if best == max(tried) and best < LARGEST_RATE:
        return None, [best * 2]
    return best, []


def wanted(found: Found) -> Iterator[Request]:
    """What can be run now: telling runs, then trials, then seed by seed over all cells."""
    cells = [(task, model) for model in MODELS for task in TASKS]
    for task, model in cells:
        if telling_of(task, model) not in found:
            yield telling_of(task, model)
    chosen = {}
    for task, model in cells:
        for arm in ARMS:
            if arm == "gain" and telling_of(task, model) not in found:
                continue
            chosen[task, model, arm], rates = best_rate(found, task, model, arm)
            yield from (Request(task, model, arm, rate, seed) for rate in rates for seed in TRIAL_SEEDS)
    for seed in SEEDS:
        for (task, model, arm), rate in chosen.items():
            if rate is not None:
                yield Request(task, model, arm, rate, seed)


def read_all(work: Path) -> Found:
    found: Found = {}
    for path in sorted(work.glob("*.json")):
        run = read_sealed(path)
        found[Request(*(run[name] for name in Request._fields))] = run
    return found


def run_all(work: Path, workers: int) -> Found:
    work.mkdir(parents=True, exist_ok=True)
    found = read_all(work)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        while missing := [request for request in dict.fromkeys(wanted(found)) if request not in found]:
            # A few at a time, so that trials that became possible go before later seeds.
            futures = {pool.submit(do, request, str(work)): request for request in missing[: 8 * workers]}
            for future in as_completed(futures):
                request = futures[future]
                found[request] = future.result()
                print(len(found), len(missing), request.name, f"{late_loss(found[request]):.4f}", flush=True)
    return found


def analysed(found: Found) -> dict[str, Any]:
    cells = []
    for model in MODELS:
        for task in TASKS:
            rates = {arm: best_rate(found, task, model, arm)[0] for arm in ARMS}
            if None not in rates.values():
                cells.append(_cell(found, task, model, rates))
    return {"cells": cells, "pooled": {name: _pooled(cells, name) for name in TARGETS}}


def _pooled(cells: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Over the cells that learn: with the tasks as the sample, a task's two bases in one mean; and with seeds resampled
    within cells."""
    to_pool = {}
    for cell in cells:
        of = cell["targets"][name]
        if of["pooled"]:
            paper_S, arm_S = (np.array([math.inf if x is None else x for x in of["rounds_to"][arm]]) for arm in ARMS)
            to_pool[cell["model"], cell["task"]] = (paper_S, arm_S, ROUNDS)
    tasks = sorted({task for _, task in to_pool})
    left_out = [f"{cell['model']} on {cell['task']}" for cell in cells if not cell["targets"][name]["pooled"]]
    facts = {"cells": len(to_pool), "left_out": left_out, "tasks": len(tasks)}
    if len(tasks) < 3:
        return facts
    firm, over_seeds, over_tasks = firmness(to_pool), pooled_speed(to_pool), _over_tasks(to_pool)
    without = {task: _over_tasks(_only(to_pool, lambda other, task=task: other != task)) for task in tasks}
    return facts | {
        "over_tasks": over_tasks,
        "without_one_task": [bound(each["value"] for each in without.values()) for bound in (min, max)],
        "needs": [task for task, each in without.items() if _side(each) != _side(over_tasks)],
        "without_those_known_before": _over_tasks(_only(to_pool, lambda task: task not in KNOWN)),
        "of_other_sources_than_ag_news": _over_tasks(
            _only(to_pool, lambda task: not set(task.split("/")) <= {*AG_NEWS})
        ),
        "over_tasks_where_late_runs_count_twice": _over_tasks(
            {cell: (paper_S, arm_S, 2 * ROUNDS) for cell, (paper_S, arm_S, _) in to_pool.items()}
        ),
        "over_seeds": over_seeds._asdict(),
        "over_seeds_without_one_cell": [firm.least, firm.most],
        "by_model": {
            model: pooled_speed({cell: of for cell, of in to_pool.items() if cell[0] == model})._asdict()
            for model in MODELS
            if any(cell[0] == model for cell in to_pool)
        },
        "within_the_first_round": sum(int((np.asarray(of[1]) < 1).sum()) for of in to_pool.values()),
    }


Pooled = dict[tuple[str, str], tuple[np.ndarray, np.ndarray, int]]  # rounds of the paper's and of gain's, the horizon


def _only(to_pool: Pooled, wanted: Callable[[str], bool]) -> Pooled:
    return {cell: of for cell, of in to_pool.items() if wanted(cell[1])}


def _over_tasks(to_pool: Pooled) -> dict[str, Any]:
    """The mean over tasks of how many times as fast, with its t interval, and the interval for one task more."""
    by_task: dict[str, list[float]] = {}
    for (_, task), (paper_S, arm_S, horizon) in to_pool.items():
        ratio = np.minimum(paper_S, horizon).mean() / np.minimum(arm_S, horizon).mean()
        by_task.setdefault(task, []).append(math.log(ratio))
    logs = [float(np.mean(of_bases)) for of_bases in by_task.values()]
    mean = mean_interval(logs)
    half = (mean.high - mean.value) * math.sqrt(len(logs) + 1)
    return {
        "tasks": len(logs),
        **{name: math.exp(getattr(mean, name)) for name in ("value", "low", "high")},
        "next_task": [math.exp(mean.value - half), math.exp(mean.value + half)],
    }


def _side(ratio: dict[str, Any]) -> int:
    return (ratio["low"] > 1) - (ratio["high"] < 1)


def _cell(found: Found, task: str, model: str, rates: dict[str, float]) -> dict[str, Any]:
    runs = {
        arm: {seed: found.get(Request(task, model, arm, rates[arm], seed)) for seed in (*TRIAL_SEEDS, *SEEDS)}
        for arm in ARMS
    }
    seeds = [seed for seed in SEEDS if all(runs[arm][seed] for arm in ARMS)]
    trials = [runs["paper"][seed] for seed in TRIAL_SEEDS]
    initial = float(np.mean([run["loss"][0] for run in trials]))
    late = float(np.mean([late_loss(run) for run in trials]))
    told = found[telling_of(task, model)]
    targets = {}
    for name, (share, beyond) in TARGETS.items():
        start = min(initial, math.log(len(told["label_words"]))) if beyond else initial
        target = start - share * (start - late)
        rounds = {arm: [_reached(runs[arm][seed], target) for seed in seeds] for arm in ARMS}
        pooled = start - late >= LEAST_LOST and bool(seeds)
        targets[name] = {
            "lost_by_paper": start - late,
            "pooled": pooled,
            "loss": target,
            "rounds_to": {arm: [None if math.isinf(x) else x for x in rounds[arm]] for arm in ARMS},
            "speed": speed(rounds["paper"], rounds["gain"], ROUNDS)._asdict() if pooled else None,
        }
    return {
        "task": task,
        "model": model,
        "label_words": told["label_words"],
        "rates": rates,
        "late_loss_of_trials": {arm: _trials(found, task, model, arm) for arm in ARMS},
        "initial_loss": initial,
        "seeds": seeds,
        # As text, a run a line: after rounds 0, 1, 2 and so on.
        "losses": {arm: [" ".join(map(_digits, runs[arm][seed]["loss"])) for seed in seeds] for arm in ARMS},
        "weights_sha256": {arm: [runs[arm][seed]["weights_sha256"] for seed in seeds] for arm in ARMS},
        "targets": targets,
        "energies": told["energies"],
        "identifiable": told["identifiable"],
    }


def _trials(found: Found, task: str, model: str, arm: str) -> dict[str, float]:
    """By rate, the mean of the trial seeds."""
    tried = sorted({request.lr for request in found if request[:3] == (task, model, arm)})
    losses = {lr: [found.get(Request(task, model, arm, lr, seed)) for seed in TRIAL_SEEDS] for lr in tried}
    return {f"{lr:g}": float(np.mean([late_loss(run) for run in of])) for lr, of in losses.items() if all(of)}


def _digits(loss: float | None) -> str:
    return "-" if loss is None else f"{loss:.6g}"


def _reached(run: dict[str, Any], target: float) -> float:
    if run["reason"]:
        return math.inf
    return first_reached(run["round"], run["loss"], target, rising=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=DEFAULT_FILE)
    parser.add_argument("--analyse-only", action="store_true", help="Run nothing more.")
    asked = parser.parse_args()
    found = read_all(asked.work) if asked.analyse_only else run_all(asked.work, asked.workers)
    commits = sorted({run["git_commit"] for run in found.values()})
    diverged = sum(bool(run["reason"]) for run in found.values())
    facts = {"runs": len(found), "diverged": diverged, "commits": commits, "machine": describe()}
    write_sealed(asked.out, {"what": __doc__.splitlines()[0], **facts, **analysed(found)})


def describe() -> dict[str, Any]:
    from zorba_core.engine.settings import TrainSettings
    from zorba_core.runs.environment import describe as environment_of

    return environment_of(TrainSettings(**SETTINGS))


if __name__ == "__main__":
    main()
