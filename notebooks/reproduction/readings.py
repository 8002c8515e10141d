"""What a comparison of two arms says in each cell, by the rule of ``artifacts/experiments/PLAN.md``.

1. The 95 % interval lies within the difference that matters: the arms are alike.
2. Else it lies on one side of 0 beyond the placebo's mean difference in the same cell: the arms differ.
3. Else undecided, with the seeds and hours that the spread asks for.

Unfinished cells count with the seeds that they have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from notebooks.reproduction import statistics as st
from notebooks.reproduction.frames import groups, where
from notebooks.reproduction.matrices import family
from notebooks.reproduction.plans import MARGIN, RATIO, TARGET, of_kind, plans
from notebooks.reproduction.sweep import COMMAND, FOLDER, read_table
from zorba_core.data.task import get_task
from zorba_core.errors import MissingDataError

FEWEST_SEEDS = 3
# Tables of the first plan, with their names for some arms. A model and task of theirs counts until a new experiment has
# the seeds.
EARLIER: dict[str, tuple[str, ...]] = {
    "methods": ("tables",),
    "scenarios": ("cases",),
    "allocations": ("lambda",),
    "shares": ("blocks", "lambda"),
}
_NAMES = {
    "allocations": {"balanced": "even", "balanced again": "even again"},
    "shares": {"balanced": "a third", "balanced again": "a third again", "frozen": "a third"},
}


@dataclass(frozen=True)
class Reading:
    """A comparison in one cell: a difference of late loss in nats, or a ratio of costs."""

    cell: str  # "opt-mini on SST-2"
    mean: st.Mean
    sign: int | None  # -1 or +1: the arms differ; 0: alike; None: undecided
    is_ratio: bool = False
    more_seeds: int = 0  # beyond those made, where undecided
    more_hours: float = 0.0

    @property
    def bound(self) -> float:
        """The farthest end of the interval: no difference is larger."""
        low, high = self.mean.low, self.mean.high
        if self.is_ratio:
            return max(high, 1 / low if low > 0 else math.inf)
        return max(abs(low), abs(high))

    def __str__(self) -> str:
        """``+0.012 (-0.003 to +0.027, opt-mini on SST-2, 24 seeds)``, or ``above 2.10 (...)``."""
        value, low, high = self.mean[:3]
        form = ".2f" if self.is_ratio else "+.3f"
        if self.is_ratio and not math.isfinite(value):
            return f"above {low:{form}} ({self.place})"
        if self.is_ratio and value == 0:
            return f"below {high:{form}} ({self.place})"
        return f"{value:{form}} ({low:{form}} to {high:{form}}, {self.place})"

    @property
    def place(self) -> str:
        return f"{self.cell}, {self.mean.count} seeds"

    @property
    def size(self) -> str:
        """``0.012 nats above`` or ``2.10 times``."""
        value, low, high = self.mean[:3]
        if not self.is_ratio:
            return f"{abs(value):.3f} nats {'above' if value >= 0 else 'below'}"
        if not math.isfinite(value):
            return f"more than {low:.2f} times"
        return f"{value:.2f} times" if value else f"less than {high:.2f} times"

    @property
    def interval(self) -> str:
        """``(-0.003 to +0.027; opt-mini on SST-2, 24 seeds)``."""
        _, low, high, _ = self.mean
        form = ".2f" if self.is_ratio else "+.3f"
        bounded = math.isfinite(low) and math.isfinite(high)
        return f"({low:{form}} to {high:{form}}; {self.place})" if bounded else f"({self.place})"

    @property
    def conclusion(self) -> str:
        """``no difference above 0.012``, ``undecided``, or nothing: the interval speaks."""
        if self.sign == 0:
            return f"no ratio beyond {self.bound:.2f}" if self.is_ratio else f"no difference above {self.bound:.3f}"
        return "undecided" if self.sign is None else ""

    @property
    def wanted(self) -> str:
        """What would decide it."""
        return f"{self.cell}: {self.more_seeds} more seeds, about {self.more_hours:.1f} hours as these ran"


def runs(checkout: Path, kind: str) -> pd.DataFrame:
    """The rows of all experiments of a kind (``methods``, ``scenarios``, ...); empty if there is no table. For a model
    and task without enough counted seeds, those of the earlier experiment."""
    folder = checkout / FOLDER
    table = _joined(folder, of_kind(kind))
    earlier = _joined(folder, EARLIER.get(kind, ()))
    if earlier.empty:
        return table
    names = _NAMES.get(kind, {})
    earlier = earlier.assign(**{name: earlier[name].replace(names) for name in ("arm", "placebo_of")})
    counted = st.measured(table)
    done = {key for key, rows in groups(counted, ["base", "task"]) if pd.Series(rows["seed"]).nunique() >= FEWEST_SEEDS}
    keys = zip(earlier["base"], earlier["task"], strict=True)
    earlier = where(earlier, np.array([key not in done for key in keys], bool))
    keys = zip(table["base"], table["task"], strict=True)
    replaced = set(zip(earlier["base"], earlier["task"], strict=True))
    table = where(table, np.array([key not in replaced for key in keys], bool))
    return pd.concat([table, earlier], ignore_index=True) if len(table) else earlier


def _joined(folder: Path, names: tuple[str, ...]) -> pd.DataFrame:
    tables = [read_table(name, folder) for name in names if (folder / f"{name}.parquet").is_file()]
    return pd.concat(tables, ignore_index=True) if tables else read_table("none", folder, missing_ok=True)


def by_loss(table: pd.DataFrame, arm: str, other: str) -> list[Reading]:
    """Late loss of ``arm`` minus that of ``other``, for each cell with enough seeds."""
    placebo = st.by_cell(st.placebo_differences(table)) if len(table) else table
    readings = []
    for cell, rows in groups(st.paired(table, arm, other), st.CELL, sort=False):
        mean = st.mean_interval(rows["difference"])
        if mean.count < FEWEST_SEEDS:
            continue
        floor = _floor(placebo, cell)
        sign = _sign(mean.low, mean.high, MARGIN, floor)
        more = _more_seeds(mean.value, (mean.high - mean.low) / 2, mean.count, MARGIN, floor)
        readings.append(_reading(table, cell, (arm, other), mean, sign, more, is_ratio=False))
    return readings


def by_cost(table: pd.DataFrame, arm: str, other: str, cost: str = "round") -> list[Reading]:
    """Cost of ``arm`` to the plan's target over that of ``other``, for each cell with enough seeds."""
    readings = []
    for cell, part in groups(table, st.CELL, sort=False):
        target = TARGET.get((cell[0], cell[1]))
        if target is None:
            continue
        reached = st.cost_to_loss(part, target, cost)
        again = part.loc[part["placebo_of"] != "", ["arm", "placebo_of"]].drop_duplicates()
        floors = [_log_floor(reached, *pair) for pair in again.itertuples(index=False)]
        for row in cast(Any, st.cost_ratio(reached, arm, other)).itertuples():
            mean = st.Mean(row.value, row.low, row.high, row.count)
            if mean.count < FEWEST_SEEDS:
                continue
            with np.errstate(divide="ignore"):
                low, high = np.log([mean.low, mean.high])
                value = np.log(mean.value)
            floor = max(floors, default=math.inf)
            sign = _sign(low, high, math.log(RATIO), floor)
            more = _more_seeds(value, (high - low) / 2, mean.count, math.log(RATIO), floor)
            readings.append(_reading(table, cell, (arm, other), mean, sign, more, is_ratio=True))
    return readings


def _log_floor(reached: pd.DataFrame, again: str, arm: str) -> float:
    """The size of the placebo's log ratio; 0 where its runs do not bound it."""
    ratio = st.cost_ratio(reached, again, arm)["value"]
    return max((abs(math.log(value)) for value in ratio if 0 < value < math.inf), default=0.0)


def _floor(placebo: pd.DataFrame, cell: tuple) -> float:
    """The largest mean difference of a placebo in the cell; infinite where it has none, so that nothing counts."""
    same = placebo
    for name, value in zip(st.CELL, cell, strict=True):
        same = where(same, same[name] == value)
    return float(np.abs(same["value"].to_numpy()).max()) if len(same) else math.inf


def _sign(low: float, high: float, margin: float, floor: float) -> int | None:
    if -margin < low and high < margin:
        return 0
    if low > max(floor, 0.0):
        return 1
    return -1 if high < -max(floor, 0.0) else None


def _more_seeds(value: float, half: float, count: int, margin: float, floor: float) -> int:
    """Seeds beyond ``count`` until the interval, about its present centre, excludes the placebo's difference or lies
    within the margin, whichever needs fewer. For a centre between both: until it is half as wide as the margin."""
    if not (math.isfinite(value) and math.isfinite(half)):
        return count
    wanted = max(abs(value) - floor, margin - abs(value), margin / 4)
    return max(math.ceil(count * (half / wanted) ** 2) - count, 1)


def cell_name(base: str, task: str) -> str:
    """``opt-mini on SST-2``."""
    return f"{base} on {get_task(task).title}"


def _reading(
    table: pd.DataFrame, cell: tuple, arms: tuple[str, ...], mean: st.Mean, sign: int | None, more: int, is_ratio: bool
) -> Reading:
    label = cell_name(*cell[:2])
    if sign is not None:
        return Reading(label, mean, sign, is_ratio)
    last = st.measured(table).sort_values("round").drop_duplicates("config_sha256", keep="last")
    here = where(last, (last["base"] == cell[0]) & (last["task"] == cell[1]) & last["arm"].isin(arms))
    seconds = float(cast(pd.Series, here.groupby("arm")["seconds"].mean()).to_numpy().sum()) if len(here) else math.nan
    return Reading(label, mean, sign, is_ratio, more, more * seconds / 3600)


def lowest_lambda(checkout: Path) -> list[Reading]:
    """The allocation of the lowest Lambda, of those with one total, against the even one."""
    table = runs(checkout, "allocations")
    lowest = min(family().members, key=lambda each: each.allocation().bias_lambda).name
    return by_loss(table, lowest, "even") or by_loss(table, "exact", "even")


def needed(readings: list[Reading], kind: str) -> list[Reading]:
    """The readings.

    Raises:
        MissingDataError: there are none; names the command that makes them.
    """
    if not readings:
        raise MissingDataError(f"{COMMAND} {of_kind(kind)[0]}")
    return readings


def all_runs(checkout: Path) -> pd.DataFrame:
    """The rows of every kind of experiment, each once."""
    kinds = dict.fromkeys(name.partition("-")[0] for name in plans())
    tables = pd.concat([runs(checkout, kind) for kind in kinds], ignore_index=True)
    return tables.drop_duplicates(["config_sha256", "round", "arm"])


def placebo_cells(table: pd.DataFrame) -> list[Any]:
    """The mean difference of late loss between each placebo and its original, for each cell with enough seeds."""
    cells = []
    for _, rows in groups(st.placebo_differences(table), "placebo_of"):
        each = st.by_cell(rows)
        cells += list(where(each, each["count"] >= FEWEST_SEEDS).itertuples())
    return cells
