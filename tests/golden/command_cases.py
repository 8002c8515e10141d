"""The requests whose ``--json`` answers are kept in ``command_answers.json``, and how an answer is made comparable.

``python -m tests.golden.command_cases`` writes the answers anew: right only where an answer was meant to change.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.command import call

HERE = Path(__file__).parent
ANSWERS = HERE / "command_answers.json"

FLEET = "client,vram_gib\nold laptop,0.62\ndesk,0.75\nserver,1.4\nrack,1.9\n"
_SMALL = "--lr 0.01 --rounds 3 --eval-every 3 --eval-rows 64 --directions 2 --batch-size 4 --seq-len 24"

# Each line is one request; {fleet}, {runs} and {repository} are replaced by paths.
ALLOCATION_REQUESTS = (
    "allocate --budgets 11,9,3,2,1,1 --blocks 12",
    "allocate --budgets 11,9,3,2,1,1 --blocks 12 --solver lexicographic",
    "allocate --budgets 3,2,1,1,1,1 --blocks 3 --solver exact",
    "allocate --budgets 3,2,1,1,1,1 --blocks 3 --solver two-level --total 9 --total-mode eq",
    "allocate --model opt-125m --clients 50 --seed 0",
    "allocate --model opt-125m --clients 50 --seed 1 --solver exact --total 200",
    "allocate --model opt-125m --clients 50 --seed 2 --solver two-level --total 300 --min-popularity 3",
    "allocate --model opt-125m --clients 50 --seed 3 --solver balanced --max-blocks-per-client 5",
    "allocate --fleet {fleet} --model opt-125m",
    "pareto --model opt-125m --clients 20 --seed 0 --epsilons 40",
    "pareto --model opt-125m --clients 20 --seed 1 --epsilons 25 --solver lexicographic",
    "pareto --model opt-125m --clients 20 --seed 1 --epsilons 12 --solver two-level",
    "vram --model opt-1.3b --seq-len 256 --total-blocks 850",
    "vram --model opt-125m --clients 50 --total-blocks 300",
    "vram --model opt-125m --method fedit",
    "vram --model opt-1.3b --method decomfl --seq-len 256",
    "scenario --budgets 12,11,10,9,8,7,6,5,4,3,12,11,10,9,8,7 --blocks 12 --total 90 --target-lambda 0.95",
    "scenario --model opt-125m --clients 50 --name SC3",
)
TRAINING_REQUESTS = (
    f"train --clients 4 --budgets 4 --estimator cohort {_SMALL} --runs-folder {{runs}} --name zorba",
    f"train --clients 3 --method decomfl --estimator cohort {_SMALL} --runs-folder {{runs}} --name decomfl",
    f"train --clients 3 --method fedzo --estimator cohort {_SMALL} --runs-folder {{runs}} --name fedzo",
    "train --clients 3 --method fedit --lr 0.01 --rounds 2 --eval-every 2 --eval-rows 64 --batch-size 4 --seq-len 24 "
    "--runs-folder {runs} --name fedit",
    f"train --clients 4 --budgets 12,3,2,1 --solver two-level --estimator reference --direction rademacher {_SMALL} "
    "--runs-folder {runs} --name reference",
)
RECORD_REQUESTS = (
    "runs {repository}/artifacts/runs",
    "replay {repository}/artifacts/runs/sst2-opt-mini-3a199a00 --round 5",
)

# Where it ran and how long it took is not part of an answer; nor what this code calls itself.
_PASSING = {"seconds", "path", "run", "peak_rss_bytes", "measured", "code", "git", "seconds_per_round"}


def answer(request: str, places: dict[str, str]) -> Any:
    """The JSON object that the command prints for ``request``, without what changes from run to run.

    Raises:
        AssertionError: the command failed or printed something else beside its JSON object.
    """
    left = call(*(part.format(**places) for part in request.split(" ")), "--json")
    assert left.status == 0, f"{request}: {left.err}"
    return _lasting(json.loads(left.out))


def places(folder: Path) -> dict[str, str]:
    """The paths that requests name, made in ``folder``."""
    fleet = folder / "fleet.csv"
    fleet.write_text(FLEET, encoding="utf-8")
    return {"fleet": str(fleet), "runs": str(folder / "runs"), "repository": str(HERE.parents[1])}


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lasting(item) for key, item in value.items() if key not in _PASSING}
    return [_lasting(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        where = places(Path(folder))
        requests = (*ALLOCATION_REQUESTS, *TRAINING_REQUESTS, *RECORD_REQUESTS)
        answers = {request: answer(request, where) for request in requests}
    ANSWERS.write_text(json.dumps(answers, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
