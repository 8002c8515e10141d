"""Four SuperNodes on this machine; two lose power at random rounds and one of them comes back. Run by hand::

    python -m tests.federation.fault_drill [--seed 0] [--model opt-mini] [--dataset toy-reviews]
        [--server] [--cut [--hosts]]

``--server`` also kills the SuperLink and everything it runs, once, and starts it again on the run's folder. ``--cut``
also cuts the network of a client that is not killed, for two rounds: its connections are dropped by a proxy, or with
``--hosts`` (as root) its cable is pulled, each client being a network namespace. The result (who was killed when,
every replica's hash, seconds and bytes) goes to artifacts/benchmarks/federation-faults.json, by drill. Exit status 1
where the run did not complete or a replica's weights differ.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.federation.cuttable import Cable
from tests.federation.namespaces import Host
from zorba_core.checksums import read_sealed, write_sealed
from zorba_core.data.tasks import get_task
from zorba_core.engine.settings import TrainSettings
from zorba_core.federation.config import RunConfig, ServerSettings
from zorba_core.federation.flower.app_folder import write_app, write_request
from zorba_core.federation.flower.deployment import Deployment, ended_by_signals, read_json
from zorba_core.federation.flower.loopback import await_result
from zorba_core.federation.request import request_config
from zorba_core.runs import TRAJECTORY, read_run
from zorba_core.runs.trajectory import read_trajectory

TARGET = Path(__file__).resolve().parents[2] / "artifacts" / "benchmarks" / "federation-faults.json"
BLOCKS = (12, 12, 6, 6)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default="opt-mini")
    parser.add_argument("--dataset", default="toy-reviews")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--deadline", type=float, default=40.0)
    parser.add_argument("--server", action="store_true")
    parser.add_argument("--cut", action="store_true")
    parser.add_argument("--hosts", action="store_true")
    parser.add_argument("--target", type=Path, default=TARGET)
    asked = parser.parse_args()
    random = np.random.default_rng(asked.seed)
    victims = random.choice(4, size=2, replace=False).tolist()
    kills = sorted(random.choice(np.arange(1, asked.rounds - 4), size=2, replace=False).tolist())
    back = int(random.integers(kills[0] + 1, asked.rounds - 2))
    script = {"kill": dict(zip(map(str, victims), kills, strict=True)), "back": {str(victims[0]): back}}
    if asked.server:
        script["server"] = int(random.integers(1, asked.rounds - 3))
    spared = next(seat for seat in range(4) if seat not in victims)
    if asked.cut:
        first = int(random.integers(1, asked.rounds - 4))
        script["cut"] = {str(spared): [first, first + 2]}
    print(f"script: {script}", flush=True)

    folder = Path(tempfile.mkdtemp(prefix="zorba-drill-"))
    settings = TrainSettings(rounds=asked.rounds, batch_size=4, num_perturbations=5, eval_every=5, eval_rows=100)
    task = get_task(asked.dataset)
    config = RunConfig(task.name, asked.model, task.label_words, 4, 1.0, settings)
    server = ServerSettings(min_clients=4, start_timeout=600.0, deadline=asked.deadline)
    request = request_config(config, server)
    events: list[dict] = []
    started = time.monotonic()

    def record(what: str, rounds: int, who: int | str) -> None:
        events.append({"what": what, "who": who, "rounds_in_log": rounds, "after_s": round(time.monotonic() - started)})
        print(events[-1], flush=True)

    nodes = [{"blocks": blocks, "model": asked.model} for blocks in BLOCKS]
    pending = [(rounds, "kill", int(seat)) for seat, rounds in script["kill"].items()]
    pending += [(rounds, "start", int(seat)) for seat, rounds in script["back"].items()]
    if asked.server:
        pending.append((script["server"], "kill server", "superlink"))

    cables: list[Cable | Host] = []
    hosts = [Host(seat) for seat in range(4)] if asked.hosts else []
    if asked.cut:
        pending += [(first, "cut", spared), (first + 2, "restore", spared)]

    def start_node(deployment: Deployment, seat: int, through: int | None = None) -> None:
        port = through or deployment.port("superlink")
        if hosts:
            deployment.start_node(seat, nodes[seat], f"{hosts[seat].ours}:{port}", within=hosts[seat].inside)
        else:
            deployment.start_node(seat, nodes[seat], f"127.0.0.1:{port}")

    def watch(deployment: Deployment) -> None:
        named = read_json(folder / "run.json")
        if named is None or not pending:
            return
        done = read_trajectory(Path(named["run"]) / TRAJECTORY).rounds_done
        for item in sorted(pending, key=lambda item: (item[0], item[1])):
            if done < item[0]:
                break
            pending.remove(item)
            record(item[1], done, item[2])
            if item[1] == "kill":
                deployment.kill(f"node-{item[2]}")
            elif item[1] in ("cut", "restore"):
                getattr(cables[0], item[1])()
            elif item[1] == "start":
                start_node(deployment, item[2])
            else:
                deployment.kill("superlink")
                deployment.start_superlink()
                again = write_request(folder, request, runs_folder=folder / "runs", resume=named["run"], force=True)
                deployment.submit(write_app(again))
                record("server started", done, "superlink")

    app = write_app(write_request(folder, request, runs_folder=folder / "runs", force=True))
    with contextlib.ExitStack() as stack:
        stack.enter_context(ended_by_signals())
        for host in hosts:
            stack.enter_context(host)
        # The namespaces reach us at their cables' ends, so the SuperLink listens there too.
        deployment = stack.enter_context(
            Deployment(folder, listen="0.0.0.0" if hosts else "127.0.0.1", insecure=bool(hosts))
        )
        deployment.start_superlink()
        for seat in range(4):
            through = None
            if asked.cut and seat == spared:
                cables.append(hosts[seat] if hosts else Cable(deployment.port("superlink")))
                through = None if hosts else cables[0].port
            start_node(deployment, seat, through)
        deployment.submit(app)
        result = await_result(deployment, folder, watch=watch)
    print((folder / "server.log").read_text(), flush=True)
    if result["state"] != "done":
        print(result["error"], file=sys.stderr)
        return 1
    run = read_run(result["run"])
    replicas = run.summary["replicas"]
    alive = set(range(4)) - {victims[1]}
    complete = run.summary["rounds_done"] == asked.rounds and {client["seat"] for client in replicas} == alive
    equal = all(client["equal"] for client in replicas)
    notes = [
        {"after_round": note.after_round, "what": note.what, **note.content}
        for note in read_trajectory(run.path / TRAJECTORY).notes
        if note.what != "replicas"
    ]
    more = (", server killed" if asked.server else "") + (", network cut" if asked.cut else "")
    more += ", each client a host" if asked.hosts else ""
    name = f"{asked.dataset}, {asked.model}, seed {asked.seed}{more}"
    kept = read_sealed(asked.target) if asked.target.is_file() else {}
    kept[name] = {
        "script": script, "events": events, "completed": complete, "all_equal": equal, "replicas": replicas,
        "server_weights_sha256": run.summary["weights_sha256"], "seconds": round(time.monotonic() - started),
        "reports": run.summary["reports"], "resumed_after_rounds": run.summary["resumed_after_rounds"],
        "notes": notes, "wire": result["wire"]["by_message"],
    }  # fmt: skip
    write_sealed(asked.target, kept)
    print(f"completed {complete}, weights equal {equal}: {name}", flush=True)
    return 0 if complete and equal else 1


if __name__ == "__main__":
    sys.exit(main())
