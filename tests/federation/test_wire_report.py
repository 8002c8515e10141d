"""What was sent, beside what the paper counts."""

from __future__ import annotations

import json
import os

import pytest

from tests.federation.test_same_as_trainer import federated
from zorba_core.checksums import write_sealed
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.federation.wire_report import wire_report

COUNTED = {"messages": 16, "payload": 3200, "framed": 16000}
EXCHANGE = {"kinds": ["train"], "seconds": 2.0, "answers": [{"client_s": 0.5, "compute_s": 0.3}]}
METERED = {"by_message": {"train up": COUNTED, "train down": COUNTED}, "exchanges": [EXCHANGE]}


@pytest.fixture
def finished(make_config, server_settings, transport, tmp_path):
    return federated(make_config(), server_settings, transport, tmp_path)


def test_bytes_stand_beside_the_papers_numbers(finished):
    run = finished
    with pytest.raises(MissingDataError, match=r"wire\.json"):
        wire_report(run)
    write_sealed(run.path / "wire.json", METERED)
    report = wire_report(run)
    up = report["per_client_and_round"]["up"]
    assert (up["paper_numbers"], up["payload_bytes"], up["framed_bytes"]) == (3, 200, 1000)  # Q is 3
    assert up["compact_bytes"] == 4 + 8 + 8 * 3  # a round, a loss and Q scalars
    assert report["per_client_and_round"]["down"]["paper_numbers"] == 2 * 3
    assert report["seconds"]["round"] == 2.0
    wire = run.path / "wire.json"
    wire.write_text(wire.read_text().replace("3200", "3201"))
    with pytest.raises(InvalidInputError, match=r"wire\.json: its checksum does not fit"):
        wire_report(run)


def test_a_wire_with_what_is_no_number_is_refused_by_name(finished):
    path, whole = finished.path / "wire.json", json.dumps(METERED)
    for written in ("16", "3200", "2.0", "0.5"):  # messages, bytes, seconds of a round and of a client
        for value in ('"abc"', "NaN", "Infinity", "1e400", "-1.0", "true", "[]", "{}", "9" * 400):
            path.write_text(whole.replace(f": {written}", f": {value}"))
            assert path.read_text() != whole
            with pytest.raises(InvalidInputError, match=r"wire\.json: not what a federated run metered"):
                wire_report(finished)


def test_seconds_that_a_client_sent_as_no_number_are_left_out(finished):
    write_sealed(finished.path / "wire.json", json.loads(json.dumps(METERED).replace("0.5", "null")))
    assert wire_report(finished)["seconds"]["client"] is None
    assert wire_report(finished)["seconds"]["of_it_computing"] == 0.3


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_wire_that_is_no_file_is_refused_by_name(finished, make):
    path = finished.path / "wire.json"
    path.unlink(missing_ok=True)
    make(path)
    with pytest.raises(InvalidInputError, match=r"wire\.json: it is a (folder|device or a pipe)"):
        wire_report(finished)


def test_a_wire_larger_than_any_runs_is_refused_before_it_is_read(finished):
    path = finished.path / "wire.json"
    path.touch()
    os.truncate(path, 64_000_001)
    with pytest.raises(InvalidInputError, match=r"wire\.json: it has more than 64000000 bytes"):
        wire_report(finished)
