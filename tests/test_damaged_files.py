"""Damaged allocations, fleets and models: read, or refused in one line by name; nothing else is written."""

from __future__ import annotations

import io
import json
import random
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.damage import call, check_refused, damaged, tree
from zorba_core.allocation import Allocation, allocation_from_file, allocation_to_bytes
from zorba_core.errors import InvalidInputError
from zorba_core.files import check_folder
from zorba_core.runs.model_source import load_config, load_model

ALLOCATION = Allocation(np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1]]))
FLEET = b'client,vram_gib\na,8\n"b, large",16.5\nc,2\nd,24\n'
MODEL = {
    "model_type": "opt", "hidden_size": 16, "num_hidden_layers": 3, "ffn_dim": 32, "vocab_size": 100,
    "max_position_embeddings": 64, "num_attention_heads": 2, "word_embed_proj_dim": 16, "tie_word_embeddings": True,
}  # fmt: skip


def check_file(folder: Path, seed: int) -> None:
    """One damaged file of one kind through what reads it."""
    random_ = random.Random(seed)
    kind = random_.choice(("npz", "json", "csv", "fleet", "model"))
    if kind in ("npz", "json", "csv"):
        path = folder / f"allocation.{kind}"
        path.write_bytes(damaged(random_, path.name, allocation_to_bytes(ALLOCATION, kind)))
        said = _refusal(allocation_from_file, path)
        assert said is None or path.name in said
    else:
        name, content = ("fleet.csv", FLEET) if kind == "fleet" else ("config.json", json.dumps(MODEL).encode())
        (folder / name).write_bytes(damaged(random_, name, content))
        before = tree(folder)
        options = ["--fleet", str(folder / name)] if kind == "fleet" else ["--model", str(folder / name)]
        more = [] if kind == "fleet" else ["--clients", "4"]
        left = call("allocate", *options, *more, "--json")
        if left.status:
            check_refused(left)
        else:
            assert json.loads(left.out)["num_clients"] >= 1
            assert not left.err
        assert tree(folder) == before


def _refusal(read: Callable[..., object], *arguments: object) -> str | None:
    """The sentence that refuses it; None for what could be read."""
    try:
        read(*arguments)
    except InvalidInputError as error:
        said = str(error)
    else:
        return None
    assert len(said) < 600
    assert "\n" not in said
    return said


def test_damaged_files_are_read_or_refused_in_one_line(tmp_path):
    for seed in range(150):
        folder = tmp_path / str(seed)
        folder.mkdir()
        check_file(folder, seed)


def _npz(header: dict[str, object], body: bytes) -> bytes:
    """An archive whose matrix has this header, whatever follows it."""
    text = repr(header).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("A_MN.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (
            "a.npz",
            _npz({"descr": "|b1", "fortran_order": False, "shape": (10**9, 10**9)}, b"\1"),
            "number of blocks is",
        ),
        ("a.npz", _npz({"descr": "|b1", "fortran_order": False, "shape": (12, 10**12)}, b"\1"), "at most 250000000"),
        ("a.npz", _npz({"descr": "|b1", "fortran_order": False, "shape": (3, 4)}, b"\1"), "does not fit its size"),
        ("a.npz", _npz({"descr": "|O", "fortran_order": False, "shape": (1, 1)}, b"\1"), "array of object"),
        ("a.npz", b"PK\x03\x04rubbish", "the archive is damaged"),
        ("a.json", b'{"num_blocks": 1e400, "blocks_per_client": [[0]]}', "num_blocks must be a whole number"),
        ("a.json", b'{"num_blocks": true, "blocks_per_client": [[0]]}', "num_blocks must be a whole number"),
        ("a.json", b'{"num_blocks": 2, "blocks_per_client": [[NaN]]}', "client 0: block ids must be whole numbers"),
        ("a.json", b'{"num_blocks": 2, "blocks_per_client": 7}', "must be a list"),
        ("a.json", b"[1]", "a JSON list; want an object with num_blocks and blocks_per_client"),
        ("a.json", b'{"num_blocks": %s, "blocks_per_client": [[0]]}' % (b"9" * 400), "more than 38 digits"),
        ("a.json", b"\xff\xfe{", "not UTF-8 text"),
        ("a.csv", b"client;num_blocks;blocks\n0;2;0\n", "columns are client;num_blocks;blocks; want"),
        ("a.csv", b"client,num_blocks,blocks\n0,2\n", "row 1 has 2 cells and the header 3"),
        ("a.csv", b"client,num_blocks,blocks\n0,2,0\n1,3,1\n", "num_blocks is not the same in all rows: 2, 3"),
    ],
)
def test_a_damaged_allocation_says_what_is_wrong_with_it(tmp_path, name, content, says):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidInputError) as error:
        allocation_from_file(path)
    assert says in str(error.value)


def test_an_archive_that_unpacks_to_more_than_anybody_holds_is_not_unpacked(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("A_MN.npy", "w") as file:
        for _ in range(300):
            file.write(bytes(1_000_000))
    assert path.stat().st_size < 1_000_000
    with pytest.raises(InvalidInputError, match="unpacks to 300000000 bytes, at most 250000000 are read"):
        allocation_from_file(path)


@pytest.mark.parametrize(
    "request_",
    [
        ["train", "--method", "decomfl", "--clients", "1000000000"],
        ["train", "--blocks-per-client", "2", "--clients", "1000000000"],
        ["allocate", "--model", "opt-125m", "--clients", "1000000000"],
        ["allocate", "--budgets", "3,2", "--blocks", "1000000000"],
        ["pareto", "--epsilons", "1000000000"],
        ["pareto", "--clients", "1000000", "--epsilons", "1000"],
        ["vram", "--clients", "1000000000", "--total-blocks", "1000000000"],
        ["vram", "--batch-size", "9" * 400, "--total-blocks", "200"],
    ],
)
def test_a_size_that_cannot_fit_is_refused_before_anything_is_allocated(request_):
    left = call(*request_)
    check_refused(left)
    assert left.status == 2


@pytest.mark.parametrize("target", ["folder.json", "file/x.json", "/proc/none/x.json", "a" * 250 + ".json"])
def test_a_place_where_nothing_can_be_written_is_refused_before_and_nothing_is_left(tmp_path, monkeypatch, target):
    monkeypatch.chdir(tmp_path)
    Path("folder.json").mkdir()
    Path("file").write_text("")
    before = tree(tmp_path)
    for request_ in (
        ["allocate", "--budgets", "3,2", "--blocks", "3", "--save", target],
        ["scenario", "--budgets", "3,2", "--blocks", "3", "--total", "5", "--target-lambda", "1.25", "--save", target],
    ):
        left = call(*request_)
        check_refused(left)
        assert left.status == 2
    assert tree(tmp_path) == before


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc here")
@pytest.mark.parametrize("folder", ["/proc", "/proc/none", "/proc/none/runs"])
def test_a_folder_that_takes_no_files_is_refused_before_any_work(folder):
    with pytest.raises(InvalidInputError, match=r"/proc (takes no files|cannot be written)"):
        check_folder(folder)


@pytest.mark.parametrize("name", ["runs\udcff", "a\0b", "\ud800"])
def test_a_folder_whose_name_is_no_text_is_refused_before_any_work(tmp_path, tiny_opt_folder, name):
    """Arrow and the writer of models cannot be told of it: a run was trained and then ended in a traceback."""
    with pytest.raises(InvalidInputError, match="the name is no text in UTF-8"):
        check_folder(tmp_path / name / "inside")
    if name.endswith("\udcff"):  # a shell can name no other
        left = call("train", "--model", str(tiny_opt_folder), "--clients", "3", "--runs-folder", str(tmp_path / name))
        check_refused(left)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("field", "value"), [("dropout", -1), ("dropout", 1e308), ("model_type", []), ("model_type", {})]
)
def test_a_models_config_that_cannot_be_is_refused_in_one_line(tiny_opt_folder, tmp_path, field, value):
    model = shutil.copytree(tiny_opt_folder, tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, field: value}))
    (model / "SHA256SUMS").unlink(missing_ok=True)
    words = (
        "--rounds",
        "1",
        "--perturbations",
        "1",
        "--batch-size",
        "2",
        "--seq-len",
        "16",
        "--eval-rows",
        "8",
        "--force",
    )
    left = call("train", "--model", str(model), "--clients", "3", *words, "--runs-folder", str(tmp_path / "runs"))
    check_refused(left)
    assert not list(tmp_path.glob("runs/*"))


def test_a_model_of_a_million_blocks_is_refused_before_they_are_made(tiny_opt_folder, tmp_path):
    model = shutil.copytree(tiny_opt_folder, tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 10**6}))
    (model / "SHA256SUMS").unlink(missing_ok=True)
    for read in (load_model, load_config):
        with pytest.raises(InvalidInputError, match="num_hidden_layers is 1000000; it must be at most 4096"):
            read(model)
