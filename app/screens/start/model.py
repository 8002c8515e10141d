"""The second box: which model, from a preset, a folder, a config.json or the hub, and what a round is made of."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from app.shared import components
from app.shared.links import linked, linked_number, linked_text
from app.shared.outside_paths import agree, agreed
from zorba_core.errors import InvalidInputError, MissingDataError, ZorbaError
from zorba_core.planning.engine_memory import Load
from zorba_core.planning.models import PRESETS, ModelSpec, model_spec, spec_from_config
from zorba_core.planning.shapes import ModelShape, model_shape, shape_from_config
from zorba_core.runs.model_source import BUNDLED, models_folder, resolve_model

OTHER = "other"
_HUB_ID = re.compile(r"[^/.~][^/]*/[^/]*")
_CONFIG, _CLICKED = "start_config", "start_hub_names"  # the second: names that the reader has sent to the hub
_DTYPES = {"float32": "32 bits", "bfloat16": "16 bits"}
_MOST_CONFIG_BYTES = 1_000_000
_HUB_SECONDS = 600  # for which the hub's answer counts


@dataclass(frozen=True)
class ChosenModel:
    """``source`` is what ``--model`` takes on a machine that has it."""

    source: str
    spec: ModelSpec
    shape: ModelShape

    @property
    def title(self) -> str:
        return self.spec.name.upper() if self.source in PRESETS else self.spec.name


def ask() -> ChosenModel | None:
    """The model; None until one is named whose size can be counted, after saying why."""
    st.markdown("## 2 · My model")
    name = linked(
        st.selectbox,
        "Model",
        [*PRESETS, *_bundled(), OTHER],
        key="my_model",
        format_func=lambda name: (
            "A folder, config.json or hub id …"
            if name == OTHER
            else f"{name.upper()} · {PRESETS[name].num_blocks} blocks"
            if name in PRESETS
            else f"{name} · {_known(name).shape.num_blocks} blocks, comes with the checkout"
        ),
        help="Planning needs the model's shape alone, not its weights.",
    )
    try:
        chosen = _other() if name == OTHER else _known(name)
    except (ZorbaError, OSError) as error:
        components.problem("This model cannot be planned yet", components.capitalised(str(error)))
        return None
    if chosen is not None:
        st.caption(
            f"**{chosen.shape.num_blocks} blocks** of {chosen.shape.block_parameters / 1e6:,.3g} M parameters, "
            f"{chosen.shape.parameters / 1e6:,.4g} M in all. A block is one transformer layer."
        )
    return chosen


def load() -> Load:
    """What a client does in a round."""
    dtype = linked(st.segmented_control, "Weights", _DTYPES, key="my_dtype", required=True)
    first, second, third = st.columns(3)
    batch = linked_number(first.number_input, "Batch B", 1, 4096, 8, key="my_batch", help="Rows a client and round.")
    length = linked_number(
        second.number_input, "Length L", 8, 65536, 64, key="my_length", step=8, help="Longest row, in tokens."
    )
    directions = linked_number(
        third.number_input, "Directions Q", 1, 4096, 10, key="my_q", help="Random directions tried in a round."
    )
    return Load(batch, length, directions, dtype)


def _bundled() -> list[str]:
    """The models that come with the checkout and are there."""
    return [name for name in BUNDLED if (models_folder() / name / "config.json").is_file()]


@st.cache_resource(max_entries=32, show_spinner=False)
def _known(name: str) -> ChosenModel:
    source = resolve_model(name) if name in BUNDLED else name
    return ChosenModel(name, model_spec(source), model_shape(source))


def _other() -> ChosenModel | None:
    text = linked_text(
        "Folder or hub id", key="my_folder", longest=300, placeholder="/models/llama-1b, or owner/name"
    ).strip()
    with st.popover("Upload a config.json", icon=":material/upload:"):
        file = st.file_uploader("config.json of the model", type=["json"], key="start_config_file")
    if file is not None:
        st.session_state[_CONFIG] = (file.name[:60], file.getvalue())
    if text and not agreed(text, key="my_folder", action="Open this folder"):
        return _of_hub(text) if _HUB_ID.fullmatch(text) else None
    if text:
        path = Path(os.path.expanduser(text))
        if path.exists():
            if path.is_dir() and not (path / "config.json").is_file():
                raise InvalidInputError(f"{text} has no config.json; give a folder that save_pretrained wrote")
            return ChosenModel(text, model_spec(path), model_shape(path))
        if _HUB_ID.fullmatch(text):
            return _of_hub(text, "No folder of this machine has this name. ")
        raise InvalidInputError(f"{text!r} is no folder on this machine and no hub id such as owner/name")
    if _CONFIG in st.session_state:
        return _of_config(*st.session_state[_CONFIG])
    st.caption("Type a folder of this machine or a hub id, or upload the model's config.json.")
    return None


def _of_config(name: str, content: bytes) -> ChosenModel:
    if len(content) > _MOST_CONFIG_BYTES:
        raise InvalidInputError(f"the file {name} has {len(content) / 1e6:.1f} MB; a config.json is smaller than 1 MB")
    try:
        config = json.loads(content)
    except (ValueError, RecursionError):
        raise InvalidInputError(f"the file {name} is not JSON; give the config.json of a Hugging Face model") from None
    if not isinstance(config, dict):
        raise InvalidInputError(f"the file {name} is no config; give the config.json of a Hugging Face model")
    title = str(config.get("_name_or_path") or config.get("model_type") or "model")[:60]
    return ChosenModel(title, spec_from_config(config, title), shape_from_config(config, title))


def _of_hub(name: str, known: str = "") -> ChosenModel | None:
    """Asked only on a click: a link alone makes nothing leave this machine. ``known``: a sentence to say before."""
    clicked = st.session_state.setdefault(_CLICKED, set())
    if name not in clicked:
        st.caption(f"{known}The hub may have a model of this name: asking sends it the name.")
        st.button("Ask the hub", key="start_ask_hub", on_click=_click, args=(name,), icon=":material/download:")
        return None
    answered = _asked_of_hub(name)
    if isinstance(answered, str):
        st.button("Ask the hub again", on_click=_asked_of_hub.clear, icon=":material/refresh:")
        raise MissingDataError(answered)
    return answered


def _click(name: str) -> None:
    """The name may go to the hub, and be looked up here: a folder of that name comes first, as in every command."""
    st.session_state[_CLICKED].add(name)
    agree(name)


@st.cache_resource(max_entries=8, ttl=_HUB_SECONDS, show_spinner="Asking the hub for the model's config")
def _asked_of_hub(name: str) -> ChosenModel | str:
    """The model, or why the hub does not give it: without a network, to find that out takes half a minute."""
    try:
        from huggingface_hub import hf_hub_download

        file = hf_hub_download(name, "config.json", etag_timeout=5)
    except Exception as error:  # no network, no such model, a model behind a licence
        return (
            f"the hub did not give the config of {name} ({type(error).__name__}); check the name and the network, or "
            "upload its config.json"
        )
    spec = model_spec(file)
    title = name.split("/")[1]
    return ChosenModel(name, ModelSpec(**{**vars(spec), "name": title}), model_shape(file))
