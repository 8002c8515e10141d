"""A client takes from a server's config what decides numbers, and nothing else; a server's settings are checked."""

from __future__ import annotations

import json

import numpy as np
import pytest

from zorba_core.errors import InvalidInputError
from zorba_core.federation.client import Client
from zorba_core.federation.client_settings import ClientSettings
from zorba_core.federation.config import ServerSettings, read_config
from zorba_core.federation.messages import MessageError, Refusal, RoundTask, decode, encode
from zorba_core.federation.request import check_config, configs_of, request_config
from zorba_core.federation.robust import AggregationSettings


def test_a_config_arrives_as_it_was_sent(make_config):
    config = make_config()
    assert read_config(config.to_json()) == config
    assert read_config(config.to_json()).run == config.run


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.pop("settings"),
        lambda value: value.update(dataset=7),
        lambda value: value.update(num_clients=0),
        lambda value: value.update(more=1),
        lambda value: value["settings"].update(lr=-1.0),
        lambda value: value["settings"].update(estimator="eval"),
    ],
)
def test_a_config_that_cannot_be_is_refused_in_one_line(make_config, change):
    value = json.loads(make_config().to_json())
    change(value)
    with pytest.raises(MessageError) as caught:
        read_config(json.dumps(value))
    assert "\n" not in str(caught.value)


def test_a_request_is_read_back_from_a_runs_config(make_config, tmp_path):
    settings = ServerSettings(min_clients=2, aggregation=AggregationSettings(rule="trimmed", trim=0.1))
    kept = json.loads(json.dumps(request_config(make_config(), settings)))
    assert configs_of(tmp_path, kept) == (make_config(), settings)
    kept.pop("federation")
    with pytest.raises(InvalidInputError, match="zorba resume"):
        configs_of(tmp_path, kept)


def test_only_zorba_is_federated(make_config, train_settings):
    with pytest.raises(InvalidInputError, match="fedzo"):
        check_config(make_config(train_settings.replace(method="fedzo", directions=None)), ServerSettings())
    with pytest.raises(InvalidInputError, match="exact, which simulates clients by a backward pass"):
        check_config(make_config(train_settings.replace(estimator="exact")), ServerSettings())
    with pytest.raises(InvalidInputError, match="seats"):
        check_config(make_config(), ServerSettings(min_clients=5))


def test_a_task_without_a_greeting_is_declined(make_config):
    client = Client(ClientSettings(seat=0, blocks=1))
    task = RoundTask("ab" * 32, 1, np.array([1], dtype=np.uint32), (0,), ())
    reply = decode(client.answer(encode(task)), Refusal)
    assert (reply.round, reply.reason) == (0, "the run has not greeted this client")
