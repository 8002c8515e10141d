"""A model's folder is read only as it was written: a changed, missing or unlisted file is named."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.damage import damage_bytes
from zorba_core.checksums import ChecksumError, check_sums, write_sums
from zorba_core.errors import InvalidInputError
from zorba_core.files import write_json
from zorba_core.planning.models import model_spec
from zorba_core.runs.model_source import load_model, load_tokenizer


def test_a_saved_model_with_a_flipped_bit_is_not_loaded(tiny_opt_folder, tmp_path):
    folder = shutil.copytree(tiny_opt_folder, tmp_path / "model")
    write_sums(folder)
    assert check_sums(folder)
    load_tokenizer(folder)
    generator = random.Random(0)
    for name in ("tokenizer.json", "config.json", "SHA256SUMS"):
        whole = (folder / name).read_bytes()
        changed = whole
        while changed == whole:
            changed = damage_bytes(generator, whole)
        (folder / name).write_bytes(changed)
        with pytest.raises(InvalidInputError, match=r"SHA256SUMS|cannot be loaded"):
            load_tokenizer(folder)
        (folder / name).write_bytes(whole)
    load_tokenizer(folder)


def test_a_changed_config_is_noticed_before_anything_is_counted_or_allocated(tiny_opt_folder, tmp_path):
    model = shutil.copytree(tiny_opt_folder, tmp_path / "model")
    write_sums(model)
    config = json.loads((model / "config.json").read_text())
    write_json(model / "config.json", config | {"ffn_dim": 768_768_000})
    for read in (model_spec, load_model):
        with pytest.raises(InvalidInputError, match="is not the file whose checksum"):
            read(model)


def test_a_list_of_checksums_without_end_is_not_read_to_it(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    write_sums(tmp_path)
    os.truncate(tmp_path / "SHA256SUMS", 9 * 2**30)
    with pytest.raises(ChecksumError, match="a line is damaged"):
        check_sums(tmp_path)


@pytest.mark.parametrize("target", ["user@host.4711:1700000000", ".#config.json"])
def test_an_editors_lock_beside_a_model_does_not_switch_its_checksums_off(tiny_opt_folder, tmp_path, target):
    folder = Path(shutil.copytree(tiny_opt_folder, tmp_path / "model"))
    write_sums(folder)
    (folder / ".#config.json").symlink_to(target)  # to nothing, and to itself
    assert check_sums(folder)
    text = (folder / "config.json").read_text(encoding="utf-8")
    (folder / "config.json").write_text(text.replace('"relu"', '"gelu"'), encoding="utf-8")
    with pytest.raises(ChecksumError, match=r"config\.json is not the file"):
        load_model(folder)


def test_a_list_of_checksums_that_lost_lines_is_refused(tiny_opt_folder, tmp_path):
    folder = Path(shutil.copytree(tiny_opt_folder, tmp_path / "model"))
    write_sums(folder)
    sums = (folder / "SHA256SUMS").read_text(encoding="utf-8")
    lines = sums.splitlines(keepends=True)
    without = ["".join(line for line in lines if name not in line) for name in ("config.json\n", "model.safetensors\n")]
    assert all(len(text) < len(sums) for text in without)
    for text in ("", sums[:-1], *without):
        (folder / "SHA256SUMS").write_text(text, encoding="utf-8")
        with pytest.raises(ChecksumError, match="SHA256SUMS: lines are missing"):
            check_sums(folder)


_MODEL_ON_A_FULL_DISK = """
import resource, signal, sys
import numpy as np
from pathlib import Path
from safetensors.numpy import save_file
from zorba_core.files import atomic_folder
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    with atomic_folder(sys.argv[1]) as folder:
        save_file({"weights": np.ones(100_000)}, folder / "model.safetensors")
except OSError as error:
    sys.exit(0 if error.filename == sys.argv[1] and error.errno else 3)
"""


@pytest.mark.skipif(os.name != "posix", reason="limits of files are POSIX's")
def test_a_disk_without_room_for_a_model_is_an_error_that_names_it(tmp_path):
    code = subprocess.run([sys.executable, "-c", _MODEL_ON_A_FULL_DISK, str(tmp_path / "model")], check=False)
    assert code.returncode == 0
    assert not any(tmp_path.iterdir())
