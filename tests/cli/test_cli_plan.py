"""``zorba plan``: modes, seconds and what is said of both, on fleets whose answer follows from the sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.damage import call, check_refused
from zorba_core.cli import build_app
from zorba_core.planning.engine_memory import Load, footprint
from zorba_core.planning.memory import GIB
from zorba_core.planning.shapes import model_shape
from zorba_core.runs import calibration as measuring
from zorba_core.runs import own_block
from zorba_core.runs.rates import read_calibration

RATES = {
    "version": 1,
    "blocks": [
        {"block_parameters": 50_000, "call_seconds": 1e-4, "multiply_adds_per_second": 2e10},
        {"block_parameters": 10_000_000, "call_seconds": 4e-3, "multiply_adds_per_second": 4e10},
    ],
    "noise_numbers_per_second": {"gaussian": 4e8, "rademacher": 1.2e9},
    "copy_bytes_per_second": 1.6e10,
    "read_bytes_per_second": 2e7,
    "write_bytes_per_second": 2e7,
    "process_bytes": 600_000_000,
    "machine": {"platform": "a machine", "clock": "seconds"},
}


@pytest.fixture
def files(tmp_path):
    """A calibration, and a fleet of one client of each mode."""
    (tmp_path / "rates.json").write_text(json.dumps(RATES))
    (tmp_path / "fleet.csv").write_text(
        "client,vram_gib,relative_speed\nbig,24,4\nfair,1.2,1\nsmall,0.2,1\ntiny,0.05,1\n"
    )
    return tmp_path


@pytest.fixture
def quick_measuring(monkeypatch):
    monkeypatch.setattr(measuring, "WIDTHS", (64, 128))
    monkeypatch.setattr(measuring, "_FILE_BYTES", 2**20)
    monkeypatch.setattr(measuring, "_NOISE_NUMBERS", 2**17)
    monkeypatch.setattr(own_block, "_SECONDS_EACH", 0.01)


def planned(files: Path, *words: str) -> dict:
    arguments = ["plan", "--fleet", str(files / "fleet.csv"), "--calibration", str(files / "rates.json"), "--json"]
    done = CliRunner().invoke(build_app(), [*arguments, *words], catch_exceptions=False)
    return json.loads(done.stdout)


def test_each_client_gets_the_mode_that_its_memory_allows(files):
    answer = planned(files, "--model", "opt-125m", "--seq-len", "128")
    clients = {client["client"]: client for client in answer["clients"]}
    assert [client["mode"] for client in answer["clients"]] == ["in-memory", "in-memory", "streamed", "cannot"]
    assert [client["fits"] for client in answer["clients"]] == [True, True, True, False]
    shape, load = model_shape("opt-125m"), Load(8, 128, 10)
    assert clients["big"]["peak_gib"] == footprint(shape, load).peak / GIB
    resident = clients["small"]["resident_blocks"]
    assert clients["small"]["peak_gib"] == footprint(shape, load, resident_blocks=resident).peak / GIB <= 0.2
    assert clients["tiny"]["resident_blocks"] == 0
    assert clients["tiny"]["seconds_per_round"] is None
    assert clients["tiny"]["would_fit"].startswith(f"{clients['tiny']['peak_gib']:.3f} GiB")
    assert answer["seconds_per_round"] == max(
        client["seconds_per_round"] for client in answer["clients"] if client["fits"]
    )
    assert clients[answer["bottleneck"]]["seconds_per_round"] == answer["seconds_per_round"]


def test_a_client_four_times_as_fast_takes_a_quarter_of_the_time_for_the_same_blocks(files):
    big, fair = planned(files, "--model", "opt-mini", "--budgets-by", "engine")["clients"][:2]
    assert big["active_blocks"] == fair["active_blocks"] == 12
    assert fair["seconds_per_round"] == pytest.approx(4 * big["seconds_per_round"])


def test_streaming_waits_for_a_slow_disk_and_more_blocks_in_memory_wait_less(files):
    (files / "fleet.csv").write_text("vram_gib\n0.2\n0.3\n0.4\n")
    clients = planned(files, "--model", "opt-125m", "--seq-len", "128", "--perturbations", "1")["clients"]
    assert {client["mode"] for client in clients} == {"streamed"}
    assert [client["resident_blocks"] for client in clients] == sorted(
        {client["resident_blocks"] for client in clients}
    )
    seconds = [client["seconds_per_round"] for client in clients]
    assert seconds[0] > seconds[1] > seconds[2]
    assert clients[0]["slowest_part"] == "reading weights"


def test_people_get_a_table_that_says_what_is_measured_and_what_assumed(files):
    arguments = ["plan", "--fleet", str(files / "fleet.csv"), "--calibration", str(files / "rates.json")]
    done = CliRunner().invoke(build_app(), [*arguments, "--model", "opt-125m"], catch_exceptions=False)
    assert "4 clients: 2 hold it in memory" in done.stdout
    assert "Measured on a machine" in done.stdout
    assert "Seconds by general rates" in done.stdout
    assert "Assumed: every client computes as fast as" in done.stdout


@pytest.mark.parametrize(
    ("fleet", "words", "says"),
    [
        (None, (), "--fleet is missing"),
        ("vram_gib\n-1\n", (), "it must be a finite number above 0"),
        ("vram_gib,relative_speed\n8,fast\n", (), "row 1: relative_speed is 'fast'; it must be a number, such as 1.5"),
        ("vram_gib,relative_speed\n8,0\n", (), "row 1: relative_speed is '0'; it must be a finite number above 0"),
        ("vram_gib\n8\n", ("--model", "opt-9000b"), "unknown model 'opt-9000b'"),
        ("vram_gib\n8\n", ("--budgets-by", "luck"), "budgets_by is 'luck'; choose one of paper, engine"),
        ("vram_gib\n8\n", ("--calibration", "."), "it is a folder"),
    ],
)
def test_a_wrong_request_gets_one_line_and_status_2(tmp_path, fleet, words, says):
    if fleet is not None:
        (tmp_path / "fleet.csv").write_text(fleet)
        words = ("--fleet", str(tmp_path / "fleet.csv"), *words)
    left = call("plan", *words, "--json")
    check_refused(left)
    assert left.status == 2
    assert says in left.err


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 9}, "a calibration of version 9"),
        ({"read_bytes_per_second": -1}, "read_bytes_per_second is -1"),
        ({"blocks": []}, "its block sizes must rise"),
        ({"blocks": 3}, "not a calibration of zorba plan"),
    ],
)
def test_a_damaged_calibration_is_refused_with_the_cure(tmp_path, change, says):
    (tmp_path / "rates.json").write_text(json.dumps({**RATES, **change}))
    (tmp_path / "fleet.csv").write_text("vram_gib\n8\n")
    left = call("plan", "--fleet", str(tmp_path / "fleet.csv"), "--calibration", str(tmp_path / "rates.json"))
    check_refused(left)
    assert left.status == 2
    assert says in left.err
    assert "remove it, and it is measured anew" in left.err


def test_a_calibration_is_measured_once_and_read_back(tmp_path, quick_measuring):
    (tmp_path / "fleet.csv").write_text("vram_gib\n8\n")
    rates = tmp_path / "rates.json"
    arguments = ["plan", "--fleet", str(tmp_path / "fleet.csv"), "--calibration", str(rates), "--json"]
    first = CliRunner().invoke(build_app(), arguments, catch_exceptions=False)
    kept, written = read_calibration(rates), rates.read_bytes()
    assert [rate.block_parameters for rate in kept.blocks] == [12 * width**2 + 13 * width for width in (64, 128)]
    assert "measuring this machine" in first.stderr
    second = CliRunner().invoke(build_app(), arguments, catch_exceptions=False)
    assert second.stderr == ""
    assert json.loads(second.stdout)["clients"] == json.loads(first.stdout)["clients"]
    assert rates.read_bytes() == written


def test_adapters_and_written_answers_change_what_a_client_needs(files):
    def peak(*words: str) -> float:
        return planned(files, "--model", "opt-mini", *words)["clients"][0]["peak_gib"]

    assert peak("--train", "lora") < peak()  # a direction moves less; the weights stay
    assert peak("--dataset", "toy-verdicts") > peak()  # logits of the whole vocabulary
    answer = planned(files, "--model", "opt-mini", "--train", "lora")
    assert {client["mode"] for client in answer["clients"]} <= {"in-memory", "cannot"}  # adapters do not stream


def test_methods_and_estimators_have_seconds_and_memory_of_their_own(files):
    def simulation(*words: str) -> dict:
        return planned(files, "--model", "opt-125m", "--seq-len", "32", *words)["simulation"]

    cohort, everything = simulation(), simulation("--method", "decomfl", "--perturbations", "10")
    exact = simulation("--estimator", "exact")
    assert exact["seconds_per_round"] < cohort["seconds_per_round"] / 2
    own = simulation("--method", "zorba-own")
    assert own["seconds_per_round"] > cohort["seconds_per_round"]
    wide, narrow = (
        simulation("--batch-size", "96", "--method", method)["peak_gib"] for method in ("zorba", "zorba-own")
    )
    assert narrow < wide  # the rows of one client at a time
    assert simulation("--method", "fedit")["seconds_per_round"] < everything["seconds_per_round"] / 2
    weights = 12 * model_shape("opt-125m").block_parameters * 4 / GIB
    assert simulation("--method", "hiso")["peak_gib"] == pytest.approx(everything["peak_gib"] + weights)
    plain = planned(files, "--model", "opt-125m")["clients"][0]["peak_gib"]
    picked = planned(files, "--model", "opt-125m", "--method", "fedkseed")
    assert picked["clients"][0]["peak_gib"] == pytest.approx(plain + weights)
    assert {client["mode"] for client in picked["clients"]} == {"in-memory", "cannot"}  # its steps need all blocks
    assert simulation("--method", "fedkseed", "--perturbations", "10")["seconds_per_round"] > own["seconds_per_round"]


def test_the_models_own_block_is_measured_with_the_machine(tmp_path, quick_measuring):
    (tmp_path / "fleet.csv").write_text("vram_gib\n8\n8\n")
    rates = tmp_path / "rates.json"
    words = ["plan", "--fleet", str(tmp_path / "fleet.csv"), "--calibration", str(rates), "--json"]
    first = CliRunner().invoke(build_app(), [*words, "--estimator", "exact"], catch_exceptions=False)
    answer = json.loads(first.stdout)
    assert len(answer["calibration"]["models"]) == 2  # of a client, and of the simulation
    assert answer["seconds_by"] == "own block"
    kept = rates.read_bytes()
    longer = CliRunner().invoke(build_app(), [*words, "--seq-len", "40"], catch_exceptions=False)
    assert json.loads(longer.stdout)["seconds_by"] == "general rates"  # the file may be of another machine
    assert rates.read_bytes() == kept
