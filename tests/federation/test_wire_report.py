"""What was sent, beside what the paper counts."""

from __future__ import annotations

import pytest

from tests.federation.test_same_as_trainer import federated
from zorba_core.checksums import write_sealed
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.federation.wire_report import wire_report


def test_bytes_stand_beside_the_papers_numbers(make_config, server_settings, transport, tmp_path):
    run = federated(make_config(), server_settings, transport, tmp_path)
    with pytest.raises(MissingDataError, match=r"wire\.json"):
        wire_report(run)
    counted = {"messages": 16, "payload": 3200, "framed": 16000}
    exchange = {"kinds": ["train"], "seconds": 2.0, "answers": [{"client_s": 0.5, "compute_s": 0.3}]}
    write_sealed(
        run.path / "wire.json",
        {"by_message": {"train up": counted, "train down": counted}, "exchanges": [exchange]},
    )
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
