"""FedKSeed, HiSo and MEERKAT over a federation: the trainer's bits, also for a client or server that comes back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.federation.test_any_method import LosesPower, all_equal, in_one_process
from zorba_core.errors import InvalidInputError, RunError
from zorba_core.federation.in_process import InProcess
from zorba_core.federation.robust import AggregationSettings
from zorba_core.federation.session import resume, serve
from zorba_core.runs.resume import replay

FULL = (3, 3, 3, 3)


@pytest.mark.parametrize("method", ["fedkseed", "hiso", "meerkat"])
def test_they_have_the_trainers_bits(make_config, make_clients, server_settings, train_settings, tmp_path, method):
    config = make_config(train_settings.for_method(method, 2))
    one = in_one_process(config, tmp_path / "one", num_clients=4)
    stores = tmp_path / "stores"
    transport = LosesPower(make_clients(FULL, stores))
    with pytest.raises(RunError, match="lost power"):
        serve(config, server_settings, transport, runs_folder=tmp_path / "many", force=True)
    (folder,) = (tmp_path / "many").iterdir()
    # Every client's process ended too: replicas come back from disk, and what directions have learned with them.
    many = resume(folder, InProcess(make_clients(FULL, stores)))
    assert many.summary["weights_sha256"] == one.summary["weights_sha256"]
    assert all_equal(many)
    assert replay(many.path).network.weights_sha256() == many.summary["weights_sha256"]


def test_scalars_for_seeds_of_their_own_cannot_be_averaged_by_another_rule(
    make_config, server_settings, transport, train_settings, tmp_path
):
    config = make_config(train_settings.for_method("fedkseed", 2))
    settings = replace(server_settings, aggregation=AggregationSettings("median"))
    with pytest.raises(InvalidInputError, match="fedkseed adds up what each client sends"):
        serve(config, settings, transport, runs_folder=tmp_path, force=True)
