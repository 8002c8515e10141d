"""Our claim about tasks of one's own rows and label words: from the file of ``tests.benchmarks.bench_own_tasks``, by
the plan beside it, with the tasks as the sample."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zorba_core.checksums import read_sealed
from zorba_core.errors import InvalidInputError
from zorba_core.study.experiments.speed import Speedup
from zorba_core.study.ledger.claims import OURS, Claim
from zorba_core.study.ledger.own_rows import judge_speed

FILE, PLAN = Path("artifacts/benchmarks/own_tasks.json"), "artifacts/benchmarks/own_tasks.md"
DECIDES = "to 70 %"  # of what the paper's trials lost


def rows(checkout: Path) -> list[Claim]:
    """The claim; it waits for its runs where there is no file.

    Raises:
        InvalidInputError: the file is damaged, or another program's.
    """
    path = checkout / FILE
    try:
        content = read_sealed(path) if path.is_file() else None
        ratio = None if content is None else _over_tasks(content["pooled"][DECIDES])
        note = "no runs yet" if content is None else _note(content)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{path}: not what tests.benchmarks.bench_own_tasks writes ({error})") from None
    verdict = judge_speed(ratio)
    text = "" if ratio is None else f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f}, {ratio.seeds} tasks)"
    return [
        Claim(
            id=f"{OURS}own-tasks/gain",
            claim="on tasks of one's own rows and label words, gain told by an earlier run's scalars is on average at "
            "least as fast, at equal VRAM of every client and equal forward passes after that run",
            where="ours: own tasks",
            printed=None,
            ours=text or None,
            unit="times as fast as the paper's to a fixed loss, at equal rounds; the tasks are the sample",
            verdict=verdict,
            how="python -m tests.benchmarks.bench_own_tasks WORK",
            evidence=(PLAN, *([] if content is None else [str(FILE)]), "zorba_core.study.experiments.speed"),
            note=note,
            counter_example=note if verdict == "contradicted" else "",
        )
    ]


def _over_tasks(pooled: Mapping[str, Any]) -> Speedup:
    over = pooled["over_tasks"]
    return Speedup(*(float(over[bound]) for bound in ("value", "low", "high")), int(over["tasks"]), 0, 0)


def _note(content: Mapping[str, Any]) -> str:
    pooled = content["pooled"][DECIDES]
    each = [
        f"{cell['model']} on {cell['task']} {_text(cell['targets'][DECIDES]['speed'])}"
        for cell in content["cells"]
        if cell["targets"][DECIDES]["pooled"]
    ]
    least, most = pooled["without_one_task"]
    lines = [
        f"for one task more {_text(dict(zip(('low', 'high'), pooled['over_tasks']['next_task'], strict=True)))}",
        f"without one task {least:.2f} to {most:.2f}",
        f"without two that were known before {_text(pooled['without_those_known_before'])}",
        f"of other sources than AG-News {_text(pooled['of_other_sources_than_ag_news'])}",
        f"over the seeds of these cells {_text(pooled['over_seeds'])}",
        *(
            f"{name} {_text(of['over_tasks'])} over {of['tasks']} tasks, deciding nothing"
            for name, of in content["pooled"].items()
            if name != DECIDES and "over_tasks" in of
        ),
    ]
    left_out = f"; the paper's arm learns too little on {', '.join(pooled['left_out'])}" if pooled["left_out"] else ""
    return f"{'; '.join(lines)}. By cell: {'; '.join(each)}{left_out}"


def _text(ratio: Mapping[str, float | None]) -> str:
    if ratio.get("low") is None or ratio.get("high") is None:
        return "without an interval"
    interval = f"{ratio['low']:.2f} to {ratio['high']:.2f}"
    return f"{ratio['value']:.2f} ({interval})" if "value" in ratio else interval
