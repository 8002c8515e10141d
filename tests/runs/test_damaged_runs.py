"""A damaged run folder: the others are listed, it is named in one line, and nobody writes into it."""

from __future__ import annotations

import json
import math
import os
import random
import re
import shutil
from dataclasses import fields
from pathlib import Path

import pandas as pd
import pytest

from tests.damage import call, check_refused, damaged, tree
from tests.runs.resumable import ALLOCATION, SETTINGS
from zorba_core.checksums import read_sealed
from zorba_core.engine.settings import TrainSettings
from zorba_core.errors import InvalidInputError
from zorba_core.runs import folder as folder_module
from zorba_core.runs import read_run
from zorba_core.runs.fields import CONFIG_FIELDS, SUMMARY_FIELDS, Maybe
from zorba_core.runs.session import fine_tune
from zorba_core.study import verify
from zorba_core.study.comparison import folder_records
from zorba_core.study.verify import verify_folder

FILES = ("allocation.npz", "config.json", "environment.json", "metrics.parquet", "summary.json", "trajectory.log")


def damage_one(random_: random.Random, folder: Path) -> str:
    """Damage one file of a run, or take it away; returns its name."""
    name = random_.choice([name for name in FILES if (folder / name).is_file()])
    path = folder / name
    if random_.random() < 0.05:
        path.unlink()
        if random_.random() < 0.5:
            path.mkdir()
    else:
        path.write_bytes(damaged(random_, name, path.read_bytes()))
    return name


def check_listing(whole: Path, folder: Path, seed: int) -> None:
    random_ = random.Random(seed)
    shutil.copytree(whole, folder / "healthy")
    shutil.copytree(whole, folder / "damaged")
    damage_one(random_, folder / "damaged")
    before = tree(folder)
    left = call("runs", str(folder), "--json")
    assert left.status == 0, left.err
    result = json.loads(left.out)
    names = {row["run"] for row in result["runs"]}
    assert "healthy" in names
    assert len(result["problems"]) == len(left.lines) == 2 - len(names), left.err
    assert all("damaged" in line for line in left.lines)
    assert call("runs", str(folder)).status == 0
    assert call("runs", str(folder), "--only", "healthy").status == 0
    records = folder_records(folder).records  # as the Runs page has them
    assert {record.name for record in records} == names
    for record in records:
        assert record.outcome
        assert record.settings
        assert record.small_curve
    assert tree(folder) == before


def check_going_on(whole: Path, folder: Path, seed: int) -> None:
    random_ = random.Random(seed)
    shutil.copytree(whole, folder / "run")
    finished = random_.random() < 0.3
    if not finished:
        (folder / "run" / "summary.json").unlink()
    name = damage_one(random_, folder / "run") if finished or random_.random() else ""
    before = tree(folder)
    replayed = call("replay", str(folder / "run"), "--json", "--save", str(folder / "model"))
    if replayed.status:
        check_refused(replayed)
        assert tree(folder) == before, name
    else:
        shutil.rmtree(folder / "model")
    resumed = call("resume", str(folder / "run"), "--json")
    if resumed.status:
        check_refused(resumed)
        assert tree(folder) == before, name
    else:
        assert json.loads(resumed.out)["rounds_done"] == 9


@pytest.mark.parametrize("seed", range(25))
def test_one_damaged_run_hides_no_other(whole, tmp_path, seed):
    check_listing(whole.path, tmp_path, seed)


@pytest.mark.parametrize("seed", range(25))
def test_a_damaged_run_is_resumed_and_replayed_or_refused_as_it_is(whole, tmp_path, seed):
    check_going_on(whole.path, tmp_path, seed)


@pytest.mark.parametrize(
    ("name", "field", "value", "says"),
    [
        ("summary.json", "vram_gib", [1, 2], "vram_gib is [1, 2]; it must be an object"),
        ("summary.json", "rounds_to_target", [], "rounds_to_target is []; it must be a whole number of at least 0"),
        ("summary.json", "reports", {"reported": "x"}, "no field reports.refused_by_client"),
        ("summary.json", "seconds", 10**400, "seconds is a number of more than 38 digits"),
        ("config.json", "num_clients", 4, "num_clients is 4 in config.json and 3 in allocation.npz"),
        ("config.json", "rounds", "9", "rounds is '9'; it must be a whole number"),
        ("environment.json", "data", [], "data is []; it must be an object"),
    ],
)
def test_a_value_of_another_kind_is_named_by_list_resume_and_replay(whole, tmp_path, name, field, value, says):
    run = shutil.copytree(whole.path, tmp_path / "run")
    (run / name).write_text(json.dumps(read_sealed(run / name) | {field: value}))
    listed = call("runs", str(tmp_path), "--json")
    assert listed.status == 0
    assert call("runs", str(tmp_path)).out.splitlines()[1].split() == ["run", "-", "damaged"]
    assert json.loads(listed.out)["runs"] == []
    assert says in json.loads(listed.out)["problems"][0]
    assert says in listed.err
    before = tree(tmp_path)
    for command in ("resume", "replay"):
        refused = call(command, str(run))
        if name != "summary.json":
            assert says in refused.err
            assert refused.status == 2
    assert tree(tmp_path) == before


def test_the_table_of_fields_knows_every_setting_and_all_that_a_run_writes(whole):
    kinds = {"int": int, "float": float, "bool": bool, "str": str, "DirectionKind": str, "Inactive": str}
    for field in fields(TrainSettings):
        optional = str(field.type).endswith("| None")
        kind = kinds[str(field.type).removesuffix(" | None")]
        expected = Maybe(kind) if optional else kind
        assert CONFIG_FIELDS.some_of[field.name] == expected, field.name
    assert set(whole.config) <= set(CONFIG_FIELDS.some_of)
    assert set(whole.summary) <= set(SUMMARY_FIELDS.some_of)


def test_equal_shares_are_null_in_the_config_and_resume(rows_divided_once, tiny_opt_folder, tmp_path):
    run = fine_tune(ALLOCATION, model=tiny_opt_folder, settings=SETTINGS, alpha=math.inf, runs_folder=tmp_path)
    assert run.config["alpha"] is None
    (run.path / "summary.json").unlink()
    assert call("resume", str(run.path)).status == 0
    assert read_run(run.path).summary["weights_sha256"] == run.summary["weights_sha256"]


def test_a_run_whose_environment_lacks_what_decides_nothing_is_resumed(whole, tmp_path):
    run = shutil.copytree(whole.path, tmp_path / "run")
    (run / "summary.json").unlink()
    environment = read_sealed(run / "environment.json")
    environment["data"] = {name: value for name, value in environment["data"].items() if name.endswith("sha256")}
    (run / "environment.json").write_text(json.dumps({**environment, "data": {**environment["data"], "metric": []}}))
    left = call("resume", str(run))
    assert left.status == 0, left
    assert "Traceback" not in left.err
    assert read_run(run).summary["weights_sha256"] == whole.summary["weights_sha256"]


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("base_weights_sha256", "resume"),
        ("data", "resume"),
        ("data", "evaluate"),
        ("data.evaluation_sha256", "resume"),
        ("data.train_sha256", "resume"),
        ("data.evaluation_sha256", "evaluate"),
    ],
)
def test_a_field_that_is_gone_is_named(whole, tmp_path, name, command):
    run = shutil.copytree(whole.path, tmp_path / "run")
    if command == "resume":
        (run / "summary.json").unlink()
    environment = json.loads((run / "environment.json").read_text())
    inner = environment["data"] if "." in name else environment
    del inner[name.rpartition(".")[2]]
    (run / "environment.json").write_text(json.dumps(environment))
    before = tree(run)
    left = call(command, str(run), "--json")
    check_refused(left)
    assert "environment.json" in left.lines[-1]
    assert "damaged" in left.lines[-1]
    assert {name: content for name, content in tree(run).items() if name != "replayed.safetensors"} == before


def test_a_runs_folder_named_like_a_home_is_a_name_as_any_other(whole, tmp_path, monkeypatch):
    """Arrow takes "~" for the home of whoever runs it: such a run was trained to its end and then called damaged."""
    shutil.copytree(whole.path, tmp_path / "~" / "run")
    monkeypatch.chdir(tmp_path)
    assert read_run(Path("~/run")).metrics.equals(whole.metrics)


def test_a_damaged_page_of_the_metrics_is_noticed(whole, tmp_path):
    """A flipped bit is refused by name; one in what a page says about itself may leave every number as it was."""
    run, refused = shutil.copytree(whole.path, tmp_path / "run"), 0
    content = (run / "metrics.parquet").read_bytes()
    places = range(len(content) // 50, len(content), len(content) // 25)
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1
        (run / "metrics.parquet").write_bytes(damaged)
        try:
            pd.testing.assert_frame_equal(read_run(run).metrics, whole.metrics)
        except InvalidInputError as error:
            assert re.search(r"metrics\.parquet.*damaged", str(error))  # noqa: PT017
            refused += 1
    assert refused > len(places) / 2


@pytest.mark.parametrize("name", ["trajectory.log", "summary.json", "metrics.parquet"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(whole, tmp_path, name):
    for copy in ("healthy", "damaged"):
        shutil.copytree(whole.path, tmp_path / copy)
    (tmp_path / "damaged" / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / "damaged" / name)
    left = call("runs", str(tmp_path), "--json")
    assert left.status == 0
    assert "healthy" in {row["run"] for row in json.loads(left.out)["runs"]}
    assert [record.name for record in folder_records(tmp_path).records if record.name == "healthy"]
    verdicts = {finding.name: finding for finding in verify_folder(tmp_path)}
    assert verdicts["healthy"].state == "ok"


def test_a_table_of_metrics_that_another_program_wrote_is_not_called_as_written(whole, tmp_path):
    shutil.copytree(whole.path, tmp_path / "edited")
    path = tmp_path / "edited" / "metrics.parquet"
    pd.read_parquet(path).to_parquet(path)
    (finding,) = verify_folder(tmp_path)
    assert (finding.state, finding.found) == ("note", "reads; its metrics.parquet has no checksum")


def test_a_disk_that_fails_is_named_with_its_file(whole, tmp_path):
    shutil.copytree(whole.path, tmp_path / "failing")
    config = tmp_path / "failing" / "config.json"
    config.unlink()
    config.symlink_to("/proc/self/mem")  # reading its start is an input/output error
    for left in (call("replay", str(tmp_path / "failing")), call("runs", str(tmp_path))):
        assert "config.json" in left.err


@pytest.mark.parametrize("log", ["whole", "lost"])
@pytest.mark.parametrize(
    "command",
    [
        ("replay", "{run}"),
        ("predict", "{run}", "--text", "a fine film"),
        ("evaluate", "{run}"),
        ("export", "{run}", "--to", "{run}-exported"),
        ("resume", "{run}"),
    ],
    ids=lambda command: command[0],
)
def test_a_config_that_was_changed_is_named_by_its_own_checksum_with_and_without_the_log(whole, tmp_path, command, log):
    run = shutil.copytree(whole.path, tmp_path / "run")
    path = run / "config.json"
    path.write_text(re.sub(r'"seed": \d+', '"seed": 77', path.read_text()))
    if log == "lost":
        (run / "trajectory.log").unlink()
    before = tree(tmp_path)
    left = call(*(word.format(run=run) for word in command))
    check_refused(left)
    assert "config.json: its checksum does not fit" in left.err
    assert tree(tmp_path) == before
    assert "config.json: its checksum does not fit" in call("runs", str(tmp_path)).err


def test_a_run_whose_config_has_no_checksum_as_before_is_resumed_to_the_same_weights(whole, tmp_path):
    run = shutil.copytree(whole.path, tmp_path / "run")
    (run / "summary.json").unlink()
    log = (run / "trajectory.log").read_bytes().splitlines(keepends=True)
    (run / "trajectory.log").write_bytes(b"".join(log[: len(log) // 2]))
    (run / "config.json").write_text(json.dumps(read_sealed(run / "config.json"), indent=2) + "\n")
    assert call("resume", str(run)).status == 0
    assert read_run(run).summary["weights_sha256"] == whole.summary["weights_sha256"]


def test_the_log_of_an_unfinished_run_that_lost_rounds_which_the_metrics_have_is_not_replayed_as_if_whole(
    whole, tmp_path
):
    run = shutil.copytree(whole.path, tmp_path / "run")
    (run / "summary.json").unlink()
    lines = (run / "trajectory.log").read_bytes().splitlines(keepends=True)
    ends = [number for number, line in enumerate(lines) if b'"kind":"round"' in line]
    (run / "trajectory.log").write_bytes(b"".join(lines[: ends[4]]))
    before = tree(run)
    left = call("replay", str(run))
    check_refused(left)
    assert "it ends at round 4 and the metrics have round 9" in left.err
    assert tree(run) == before
    assert call("replay", str(run), "--round", "3").status == 0
    (finding,) = verify_folder(tmp_path)
    assert (finding.state, "it ends at round 4" in finding.found) == ("broken", True)
    left = call("resume", str(run))
    assert (left.status, "that is computed again" in left.err) == (0, True)
    assert read_run(run).summary["weights_sha256"] == whole.summary["weights_sha256"]


@pytest.mark.parametrize("name", ["config.json", "environment.json", "summary.json"])
def test_a_file_far_larger_than_a_run_writes_is_refused_before_it_is_parsed(whole, tmp_path, monkeypatch, name):
    run = shutil.copytree(whole.path, tmp_path / "run")
    os.truncate(run / name, 9_000_000)
    before = folder_module.parse_json
    monkeypatch.setattr(
        folder_module, "parse_json", lambda text: before(text) if len(text) < 1e6 else pytest.fail("parsed")
    )
    with pytest.raises(InvalidInputError, match=rf"{name}: 9,000,000 bytes is too large .*\(limit 8,000,000\)"):
        read_run(run)


def test_a_summary_of_100_000_clients_is_within_what_is_read(whole):
    summary = read_sealed(whole.path / "summary.json")
    share_N = [random.Random(n).random() * 24 for n in range(100_000)]
    summary["vram_gib"]["per_client"] = share_N
    summary["reports"]["refused_by_client"] = dict.fromkeys(range(100_000), 1_000)
    assert len(json.dumps(summary, indent=2)) < folder_module._MAX_JSON_BYTES


def test_a_json_file_larger_than_any_vocabulary_is_named_before_it_is_parsed(tmp_path, monkeypatch):
    (tmp_path / "big.json").touch()
    os.truncate(tmp_path / "big.json", 41_000_000)
    monkeypatch.setattr(verify, "parse_json", lambda _: pytest.fail("parsed"))
    (finding,) = verify_folder(tmp_path)
    assert finding.state == "broken"
    assert finding.found == "41,000,000 bytes is too large for a JSON file (limit 40,000,000)"
