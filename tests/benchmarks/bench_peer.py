"""A round of DeComFL by its authors' own code, and the same round here: seconds in one process, taking turns.

    git clone https://github.com/ZidongLiu/DeComFL /tmp/decomfl
    python -m tests.benchmarks.bench_peer /tmp/decomfl [--commit SHA]

The job of both: N clients, full activation, Q forward differences of a client's mini-batch along Gaussian directions,
one average of the scalars, one update of everybody's model; float32 on one thread, the blocks of opt-mini, B rows of L
tokens a client. Theirs is ``CeZO_Server.train_one_step`` with ``ResetClient`` and ``RandomGradientEstimator``, in the
mode that draws a whole direction at once, the faster one of its two. Embeddings are frozen there, as they are here; the
loss of the first batch is compared. Ours is one round of the engine's loop by each estimator, and beside full
activation two allocations of 80 blocks. Process CPU seconds; the ratio is the median of those within a turn. Writes
artifacts/benchmarks/peer.json.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from tests.engine.all_rounds import step
from zorba_core.allocation import Allocation, Problem, solve
from zorba_core.engine.blocks import Blocks
from zorba_core.engine.loop import FederatedRows, init
from zorba_core.engine.rows import Rows
from zorba_core.engine.settings import Settings
from zorba_core.files import write_json
from zorba_core.runs.load import use_threads
from zorba_core.runs.models import load_model
from zorba_core.runs.record import environment_of

OUT = Path(__file__).resolve().parents[2] / "artifacts" / "benchmarks" / "peer.json"
MODEL, CLIENTS, TOTAL, TURNS = "opt-mini", 20, 80, 3
LABEL_IDS = (10, 20)
LR = 1e-7  # so small that the timed model stays what it was
SETTINGS = Settings(lr=LR, directions=10, batch_size=8, seq_len=32, direction="gaussian")


def client_batches(vocabulary: int, num_clients: int = CLIENTS) -> list[Rows]:
    """For each client rows of random tokens, ``seq_len`` long."""
    generator, rows = np.random.default_rng(0), []
    B, L = SETTINGS.batch_size, SETTINGS.seq_len
    for _ in range(num_clients):
        token_ids_BL = torch.from_numpy(generator.integers(3, vocabulary, (B, L)))
        label_B = torch.from_numpy(generator.integers(0, len(LABEL_IDS), B))
        rows.append(Rows.of_words(token_ids_BL, torch.full((B,), L - 1), label_B, LABEL_IDS))
    return rows


def seconds(run: Callable[[], Any]) -> float:
    """CPU seconds of this process: other work on the machine changes them little."""
    started = time.process_time()
    run()
    return time.process_time() - started


def peer_round(batches_N: list[Rows]) -> Callable[[], float]:
    """One round by the authors' code; it returns the clients' mean loss after their local step."""
    # The only thing that their language module takes of this one is a token for downloads, of which there are none.
    sys.modules["experiment_helper"] = ModuleType("experiment_helper")
    sys.modules["experiment_helper.hf_token"] = ModuleType("experiment_helper.hf_token")
    sys.modules["experiment_helper.hf_token"].HF_TOKEN = None
    from cezo_fl.client import ResetClient
    from cezo_fl.gradient_estimators import random_gradient_estimator, random_gradient_estimator_splitted
    from cezo_fl.server import CeZO_Server
    from cezo_fl.util.language_utils import LLMBatchInput, get_lm_loss
    from cezo_fl.util.model_helpers import model_forward

    by_label = dict(enumerate(LABEL_IDS))
    loss, accuracy = (get_lm_loss(kind, verbalizer_id_map=by_label) for kind in ("last_token", "accuracy"))
    method = random_gradient_estimator.RandomGradEstimateMethod.rge_forward

    def tools() -> tuple[Any, Any, Any]:
        model = load_model(MODEL).requires_grad_(False)
        for block in model.model.decoder.layers:
            block.requires_grad_(True)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        estimator = random_gradient_estimator_splitted.RandomGradientEstimatorBatch(
            iter(trained),
            mu=SETTINGS.mu,
            num_pert=SETTINGS.directions,
            grad_estimate_method=method,
            device="cpu",
        )
        return model, estimator, torch.optim.SGD(trained, lr=LR, momentum=0)

    def loader(batch: Rows) -> list[tuple[Any, torch.Tensor]]:
        target_RL = torch.zeros_like(batch.token_ids_RL)
        target_RL[:, -1] = torch.tensor(LABEL_IDS)[batch.label_E]
        return [(LLMBatchInput(batch.token_ids_RL, torch.ones_like(batch.token_ids_RL)), target_RL)]

    clients = []
    for batch in batches_N:
        model, estimator, optimizer = tools()
        device = torch.device("cpu")
        clients.append(ResetClient(model, model_forward, loader(batch), estimator, optimizer, loss, accuracy, device))
    server = CeZO_Server(clients, torch.device("cpu"), num_sample_clients=len(clients), local_update_steps=1)
    model, estimator, optimizer = tools()
    server.set_server_model_and_criterion(model, model_forward, loss, accuracy, optimizer, estimator)
    rounds = itertools.count()

    @torch.no_grad()
    def run() -> float:
        return server.train_one_step(next(rounds))[0]

    return run


def own_rounds(batches_N: list[Rows]) -> dict[str, Callable[[], float]]:
    """A round of this engine, by name; each returns the clients' mean loss before it."""
    rows = batches_N[0].joined(batches_N)
    starts = np.cumsum([0, *map(len, batches_N)])
    data = FederatedRows(rows, [np.arange(*pair) for pair in itertools.pairwise(starts)], rows)

    def by(estimator: str, A_MN: np.ndarray) -> Callable[[], float]:
        network = Blocks(load_model(MODEL))
        settings = SETTINGS.replace(estimator=estimator)
        allocation, state = Allocation(A_MN), init(network, settings)

        def run() -> float:
            nonlocal state
            state, result = step(state, network, allocation, data, settings)
            return float(result.loss_N.mean())

        return run

    M, N = Blocks(load_model(MODEL)).num_blocks, len(batches_N)
    problem = Problem(np.full(N, M), M, total=TOTAL)
    matrices = {
        "full": np.ones((M, N), dtype=bool),
        "balanced T=80": solve(problem, "balanced").allocation.A_MN,
        "two-level T=80": solve(problem, "two-level").allocation.A_MN,
    }
    return {
        f"{name}, {estimator}": by(estimator, A_MN)
        for name, A_MN in matrices.items()
        for estimator in ("cohort", "exact")
    }


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """The peer prints the number of parameters for every client."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", type=Path, help="folder with a checkout of DeComFL")
    parser.add_argument("--commit", default=None, help="the checkout's commit, for the record")
    asked = parser.parse_args()
    sys.path.insert(0, str(asked.peer))
    with use_threads(1):
        batches_N = client_batches(load_model(MODEL).config.vocab_size)
        with quiet():
            peer = peer_round(batches_N)
        rounds = {"DeComFL's code": peer, **own_rounds(batches_N)}
        losses = {name: run() for name, run in rounds.items()}  # a first turn, to warm up
        turns = [{name: seconds(run) for name, run in rounds.items()} for _ in range(TURNS)]
    times = {name: [turn[name] for turn in turns] for name in rounds}
    theirs = times["DeComFL's code"]
    result = {
        "settings": {"model": MODEL, "clients": CLIENTS, **SETTINGS.model_dump()},
        "peer": {"code": "https://github.com/ZidongLiu/DeComFL", "commit": asked.commit, "license": "Apache-2.0"},
        "environment": environment_of(SETTINGS),
        "clock": "process CPU seconds",
        "mean_loss": losses,
        "seconds_a_round": times,
        "times_less_than_the_peer": {
            name: statistics.median(a / b for a, b in zip(theirs, own, strict=True)) for name, own in times.items()
        },
    }
    write_json(OUT, result)
    for name, times_less in result["times_less_than_the_peer"].items():
        print(f"{name}: {statistics.median(times[name]):.2f} s, {times_less:.2f} times less; loss {losses[name]:.6f}")


if __name__ == "__main__":
    main()
