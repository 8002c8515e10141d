"""The zip that starts a planned federation: scripts that parse, options that exist, keys that belong together."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import zipfile

import pytest

from zorba_core.errors import InvalidInputError
from zorba_core.federation.start_files import SeatKind, StartPlan, start_files

pytest.importorskip("cryptography")
KINDS = (
    SeatKind("RTX 3090", (0, 1), 12, names=("lab-1", "lab-2")),
    SeatKind('Jetson "Orin"\n$(reboot)', (2,), 3, memory_limit="1.50GiB"),
)
OPTIONS = {"dataset": "toy-reviews", "rounds": 5, "batch_size": 8, "seq_len": 64, "perturbations": 10,
           "dtype": "float32", "min_clients": 2, "deadline": 90}  # fmt: skip


def unpacked(folder, **changes):
    plan = StartPlan(KINDS, OPTIONS, "/models/my model", False, True, server="fl.example.org", port=8443)
    plan = StartPlan(**{**vars(plan), **changes})
    with zipfile.ZipFile(io.BytesIO(start_files(plan))) as packed:
        packed.extractall(folder)
    return folder / "zorba-federation"


def test_every_kind_of_card_has_a_script_that_parses_with_its_seats_and_keys(tmp_path):
    folder = unpacked(tmp_path)
    scripts = sorted(folder.glob("*/*.sh")) + sorted(folder.glob("clients/*/*.sh"))
    assert len(scripts) == 5
    for script in scripts:
        subprocess.run(["sh", "-n", str(script)], check=True)
    card, streams = sorted(folder.glob("clients/*"), key=lambda path: "jetson" in path.name)
    assert (card.name, streams.name) == ("rtx-3090", "jetson-orin-reboot-streams")
    assert sorted(path.name for path in card.glob("keys/*")) == ["seat-0", "seat-1"]
    assert 'memory-limit=\\"1.50GiB\\" model=' in (streams / "start.sh").read_text()
    assert "$(reboot)" not in "".join(
        line for line in (streams / "start.sh").read_text().splitlines() if not line.startswith("#")
    )
    assert json.loads((folder / "plan.json").read_text())["kinds"][0]["machines"] == ["lab-1", "lab-2"]
    assert "| RTX 3090 | 0-1 | 12 | in memory | `clients/rtx-3090/start.sh` |" in (folder / "README.md").read_text()


def test_the_servers_command_has_only_options_that_there_are(tmp_path, root):
    known = json.loads((root / "tests/golden/command_options.json").read_text())["federation up"]
    folder = unpacked(tmp_path, own_rows=False)
    command = next(
        line for line in (folder / "server/3-run.sh").read_text().splitlines() if line.startswith("zorba federation up")
    )
    given = {word for word in command.split() if word.startswith("--")}
    assert given <= set(known)
    assert {"--clients", "--dataset", "--model", "--folder"} <= given


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_the_certificate_is_the_authoritys_and_names_the_server(tmp_path):
    tls = unpacked(tmp_path) / "server" / "tls"
    verified = ["openssl", "verify", "-CAfile", "ca.pem", "-verify_hostname", "fl.example.org", "server.pem"]
    assert "OK" in subprocess.run(verified, cwd=tls, capture_output=True, text=True, check=True).stdout
    other = subprocess.run([*verified[:5], "else.example", "server.pem"], cwd=tls, capture_output=True)
    assert other.returncode != 0


def test_a_private_key_belongs_to_the_public_one_that_the_server_lets_in(tmp_path):
    from cryptography.hazmat.primitives import serialization

    folder = unpacked(tmp_path)
    private = serialization.load_ssh_private_key((folder / "clients/rtx-3090/keys/seat-1").read_bytes(), None)
    public = (folder / "server/keys/seat-1.pub").read_bytes()
    as_ssh = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    assert private.public_key().public_bytes(*as_ssh) == public.strip()
    assert (folder / "server/keys/seat-0.pub").read_bytes() != public


def test_seats_with_a_gap_and_a_server_that_is_no_name_are_refused():
    with pytest.raises(InvalidInputError, match="seats 0 to N-1"):
        StartPlan((SeatKind("a", (0, 2), 1),), OPTIONS, "opt-mini", True, False)
    with pytest.raises(InvalidInputError, match="no name of a server"):
        StartPlan(KINDS, OPTIONS, "opt-mini", True, False, server="x; rm -rf /")
