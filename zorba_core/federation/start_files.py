"""Everything that starts a planned federation on other machines, as one zip: server, one script a kind of card, keys.

What is in it is text and keys; whoever unpacks it needs this package with the extra ``flower`` on every machine. The
steps are those of this room's README, with the plan's numbers filled in.

Shapes: N seats.
"""

from __future__ import annotations

import io
import re
import shlex
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field

from zorba_core.errors import InvalidInputError
from zorba_core.federation.keys import Authority, client_key, new_authority
from zorba_core.files import to_json

PORT = 8000
MOST_SEATS = 2_000
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_STEM = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class SeatKind:
    """Clients that start alike: cards of one kind that hold the model in the same way."""

    kind: str  # of card
    seats: tuple[int, ...]
    blocks: int  # most that each activates
    memory_limit: str | None = None  # such as 2.5GiB: the model stays in its files, and the client computes on its CPU
    device: str = "cuda"
    names: tuple[str, ...] = field(default=())  # of the machines, by seat, where they are known


@dataclass(frozen=True)
class StartPlan:
    """What the federation is to do. ``options`` are those of ``zorba federation up``, by name.

    Raises:
        InvalidInputError: seats that are not 0 to N-1, a server's name that is none, or a port out of range.
    """

    kinds: tuple[SeatKind, ...]
    options: dict[str, str | int | float]
    model: str
    model_is_bundled: bool
    own_rows: bool  # each client reads a file of its own
    server: str = "server.example"
    port: int = PORT

    def __post_init__(self) -> None:
        seats = sorted(seat for kind in self.kinds for seat in kind.seats)
        if not seats or seats != list(range(len(seats))) or len(seats) > MOST_SEATS:
            raise InvalidInputError(f"a federation has seats 0 to N-1, and at most {MOST_SEATS:,} of them")
        if not _HOST.fullmatch(self.server):
            raise InvalidInputError(
                f"{self.server[:80]!r} is no name of a server; give a name or an IPv4 address, such as fl.example.org"
            )
        if not 1 <= self.port <= 65535:
            raise InvalidInputError(f"port is {self.port}; it must be from 1 to 65535")

    @property
    def num_seats(self) -> int:
        return sum(len(kind.seats) for kind in self.kinds)


def start_files(plan: StartPlan) -> bytes:
    """The zip. Its keys are new on every call: whoever has the file can join the federation.

    Raises:
        MissingDataError: the package ``cryptography``, which Flower brings, is not installed.
    """
    authority = new_authority(plan.server)
    files: dict[str, tuple[bytes, int]] = {}

    def put(name: str, content: str | bytes, mode: int = 0o644) -> None:
        files[f"zorba-federation/{name}"] = (content.encode() if isinstance(content, str) else content, mode)

    put("README.md", _readme(plan))
    put("plan.json", to_json(_described(plan), indent=1))
    _server_files(plan, authority, put)
    stems: set[str] = set()
    for kind in plan.kinds:
        stem = _stem(kind, stems)
        put(f"clients/{stem}/start.sh", _client_script(plan, kind), 0o755)
        put(f"clients/{stem}/ca.pem", authority.certificate)
        for seat in kind.seats:
            private, public = client_key()
            put(f"clients/{stem}/keys/seat-{seat}", private, 0o600)
            put(f"server/keys/seat-{seat}.pub", public)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for name, (content, mode) in sorted(files.items()):
            entry = zipfile.ZipInfo(name, date_time=(2020, 1, 1, 0, 0, 0))
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | mode) << 16
            file.writestr(entry, content)
    return packed.getvalue()


def _server_files(plan: StartPlan, authority: Authority, put) -> None:
    put("server/tls/ca.pem", authority.certificate)
    put("server/tls/server.pem", authority.server_certificate)
    put("server/tls/server.key", authority.server_key, 0o600)
    put("server/1-superlink.sh", _SUPERLINK.format(environment=_ENVIRONMENT, port=plan.port), 0o755)
    put("server/2-admit.sh", _ADMIT.format(environment=_ENVIRONMENT, port=plan.port), 0o755)
    words = ["zorba", "federation", "up", "--app-only", "--clients", str(plan.num_seats)]
    for name, value in plan.options.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    model = (
        "" if plan.model_is_bundled else f"MODEL=${{MODEL:-{shlex.quote(plan.model)}}}  # its folder on this machine\n"
    )
    command = " ".join(shlex.quote(word) for word in words)
    command += " --model " + (shlex.quote(plan.model) if plan.model_is_bundled else '"$MODEL"')
    if plan.own_rows:
        command += ' --data "$HERE/task.toml" --test "${TEST:?set TEST to the rows to evaluate on}"'
    put("server/3-run.sh", _RUN.format(environment=_ENVIRONMENT, model=model, command=command), 0o755)


def _client_script(plan: StartPlan, kind: SeatKind) -> str:
    seats = " ".join(str(seat) for seat in kind.seats)
    own = [f"blocks={kind.blocks}"]
    if kind.memory_limit is not None:
        own.append(f'memory-limit=\\"{kind.memory_limit}\\"')
        device = "# The model stays in its files and is read block after block, which is done on the CPU."
    else:
        device = f"DEVICE=${{DEVICE:-{kind.device}}}  # cuda, or cpu"
        own.append('device=\\"$DEVICE\\"')
    needs = []
    if not plan.model_is_bundled:
        needs.append(f"MODEL=${{MODEL:-{shlex.quote(plan.model)}}}  # the folder of the base model on this machine")
        own.append('model=\\"$MODEL\\"')
    if plan.own_rows:
        needs.append("ROWS=${ROWS:?set ROWS to the file with the rows of this client}")
        own.append('rows=\\"$ROWS\\"')
    return _CLIENT.format(
        kind=re.sub(r"[^\x20-\x7e]", "?", kind.kind),
        blocks=kind.blocks,
        seats=seats,
        first=kind.seats[0],
        environment=_ENVIRONMENT,
        device=device,
        needs="\n".join(needs),
        server=plan.server,
        port=plan.port,
        own=" ".join(own),
    )


def _stem(kind: SeatKind, taken: set[str]) -> str:
    stem = _STEM.sub("-", kind.kind.lower()).strip("-")[:40] or "card"
    stem = f"{stem}-streams" if kind.memory_limit else stem
    number, base = 2, stem
    while stem in taken:
        stem, number = f"{base}-{number}", number + 1
    taken.add(stem)
    return stem


def _described(plan: StartPlan) -> dict[str, object]:
    return {
        "server": plan.server,
        "port": plan.port,
        "model": plan.model,
        "options": plan.options,
        "kinds": [
            {
                "kind": kind.kind,
                "seats": list(kind.seats),
                "blocks": kind.blocks,
                "memory_limit": kind.memory_limit,
                "machines": list(kind.names),
            }
            for kind in plan.kinds
        ],
    }


def _readme(plan: StartPlan) -> str:
    taken: set[str] = set()
    rows = "\n".join(
        f"| {kind.kind.replace('|', '/')} | {_ranges(kind.seats)} | {kind.blocks} | "
        f"{kind.memory_limit + ', block by block' if kind.memory_limit else 'in memory'} | "
        f"`clients/{_stem(kind, taken)}/start.sh` |"
        for kind in plan.kinds
    )
    model = (
        f"the model {plan.model}, which comes with the package"
        if plan.model_is_bundled
        else f"the folder of the base model ({plan.model}), the same files everywhere; MODEL names it"
    )
    data = (
        "A client also needs its own rows (ROWS names the file)"
        if plan.own_rows
        else "A client needs nothing else: the task's rows are built in"
    )
    task = (
        "\nPut the task's description beside `3-run.sh` as `task.toml` (`zorba task check` writes and checks one), and "
        "set TEST to rows that the server evaluates on.\n"
        if plan.own_rows
        else ""
    )
    return _README.format(
        seats=plan.num_seats, rows=rows, model=model, data=data, server=plan.server, port=plan.port, task=task
    )


def _ranges(seats: Sequence[int]) -> str:
    """``0-3, 7``."""
    parts: list[list[int]] = []
    for seat in sorted(seats):
        if parts and parts[-1][1] == seat - 1:
            parts[-1][1] = seat
        else:
            parts.append([seat, seat])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


_ENVIRONMENT = """\
export FLWR_HOME=${FLWR_HOME:-$HOME/zorba-flower} FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1
export OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false FLWR_SUPEREXEC_TASK_POLL_INTERVAL=0.2
mkdir -p "$FLWR_HOME"
HERE=$(cd "$(dirname "$0")" && pwd)"""

_SUPERLINK = """\
#!/bin/sh
# On the server, first: the SuperLink, which clients connect to. It stays in the foreground.
set -eu
{environment}
exec zorba federation superlink --host 0.0.0.0 --port {port} --enable-supernode-auth \\
    --disable-runtime-dependency-installation \\
    --ssl-ca-certfile "$HERE/tls/ca.pem" --ssl-certfile "$HERE/tls/server.pem" --ssl-keyfile "$HERE/tls/server.key" \\
    --database "$FLWR_HOME/superlink.db"
"""

_ADMIT = """\
#!/bin/sh
# On the server, once, while the SuperLink runs: lets the clients' keys in.
set -eu
{environment}
cat > "$FLWR_HOME/config.toml" <<EOF
[superlink]
default = "ours"

[superlink.ours]
address = "localhost:{port}"
root-certificates = "$HERE/tls/ca.pem"
EOF
for key in "$HERE"/keys/seat-*.pub; do
    flwr supernode register "$key" ours
done
"""

_RUN = """\
#!/bin/sh
# On the server, once the clients are started: the run. Its log is run/server.log, its result an ordinary run folder.
set -eu
{environment}
{model}{command} --folder "$HERE/run" --runs-folder "$HERE/runs"
flwr run "$HERE/run/app" ours
echo "follow it: tail -f $HERE/run/server.log"
"""

_CLIENT = """\
#!/bin/sh
# On a client, kind of card {kind}: start.sh SEAT. Each machine takes a seat of its own.
# Seats: {seats}
# Most blocks that each activates: {blocks}.
set -eu
{environment}
SEAT=${{1:-{first}}}
{device}
{needs}
REPLICA=${{REPLICA:-$FLWR_HOME/replica-$SEAT}}
chmod 600 "$HERE/keys/seat-$SEAT"
exec zorba federation node --superlink {server}:{port} --root-certificates "$HERE/ca.pem" \\
    --auth-supernode-private-key "$HERE/keys/seat-$SEAT" --host 127.0.0.1 --port "${{PORT:-$((9094 + SEAT))}}" \\
    --node-config "seat=$SEAT replica=\\"$REPLICA\\" {own}"
"""

_README = """\
# Start a federation of {seats} clients

On every machine: Python 3.11 or newer, this package with its extra `flower`
(`pip install -c constraints.txt torch==2.13.0 -e '.[flower]'`, the same version everywhere), and {model}.
{data}.

| card | seats | blocks at most | holds the model | script |
| --- | --- | --- | --- | --- |
{rows}

1. **Server** ({server}, port {port} open to the clients): copy `server/` there. `sh 1-superlink.sh` stays in the
   foreground; in a second terminal `sh 2-admit.sh` lets the clients' keys in.
2. **Clients**: copy the folder of the card's kind to each machine, with the key of its seat alone
   (`keys/seat-N`), and run `sh start.sh N`. A client opens no port to others.
3. **Server**: `sh 3-run.sh` starts the run. `zorba runs --runs-folder runs` lists it.
{task}
**Keys.** The private keys in this file let their holder join as that seat, and `server/tls/server.key` lets its holder
pose as the server. Send nobody more than their own folder, then delete the file. For keys that never leave a machine,
make each with `ssh-keygen -t ecdsa -b 384` there, and register its public half in step 1.

If the server has another name than {server}, make the file again with that name: the certificate is for it and for
localhost. `zorba_core/federation/README.md` explains each step, and what is and is not defended.
"""
