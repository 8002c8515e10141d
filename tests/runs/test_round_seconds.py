"""Seconds of a round counted by hand, from blocks that cost round numbers; and blocks that are measured."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from zorba_core.engine.settings import TrainSettings
from zorba_core.errors import InvalidInputError
from zorba_core.planning.engine_memory import Load
from zorba_core.planning.shapes import model_config, model_shape, shape_from_config
from zorba_core.runs import own_block
from zorba_core.runs.calibration import with_own_block
from zorba_core.runs.rates import BlockRate, BlockSeconds, Calibration, calibration_of, model_key, seconds_of_rows
from zorba_core.runs.round_seconds import process_seconds, round_seconds

SHAPE = replace(model_shape("opt-125m"), num_blocks=3)
LOAD = Load(2, 8, 5)  # B, L, Q
# A pass: 1 s and 2 s a row. The last block and the loss: 0.5 s and 0.25 s a row.
BLOCK = BlockSeconds(((0.0, 1.0), (4.0, 9.0)), ((0.0, 0.5), (4.0, 1.5)), 10.0, 3.0, 7.0, 0.125)
GENERAL = Calibration((BlockRate(SHAPE.block_parameters, 1e-3, 1e10),), {"gaussian": 1e9}, 1e17, 1e6, 1e6, 1, {})
A_MN = np.array([[1, 0], [0, 1], [1, 1]], bool)


def with_block(load: Load, block: BlockSeconds = BLOCK) -> Calibration:
    return replace(GENERAL, models={model_key(SHAPE, load, "gaussian"): block})


def of_process(method: str = "zorba", **changes) -> list[float]:
    load = replace(LOAD, **changes)
    spent = process_seconds(SHAPE, load, with_block(load), direction="gaussian", A_MN=A_MN, method=method)
    return [round(part, 6) for part in (spent.passes, spent.noise, spent.update, spent.backward)]


def test_a_client_alone():
    spent = round_seconds(SHAPE, LOAD, with_block(LOAD), direction="gaussian", active_blocks=2, forward_work=2)
    # Base: two blocks of 5 s, an end of 1 s. Each direction: block 1, and the end.
    assert spent.passes == pytest.approx(2 * 5 + 1 + 5 * (5 + 1))
    assert (spent.noise, spent.update, spent.backward) == (5 * 2 * 10, 5 * 3 * 3, 0)
    late = round_seconds(SHAPE, LOAD, with_block(LOAD), direction="gaussian", active_blocks=1, forward_work=1)
    assert late.passes == pytest.approx(2 * 5 + 1 + 5 * 1)


def test_a_cohort_passes_those_who_activate_a_block_apart_from_those_who_do_not():
    everyone = 2 * (1 + 2 * 4) + (0.5 + 0.25 * 4)
    a_direction = 5 + (5 + 5) + (0.5 + 0.25 * 4)  # one client; one active and one on its way; both at the end
    assert of_process() == [everyone + 5 * a_direction, 5 * 3 * 10, 5 * 3 * 3, 0]


def test_clients_with_directions_of_their_own_go_one_after_another():
    first, second = (2 * 5 + 1 + 5 * (2 * 5 + 1)), (2 * 5 + 1 + 5 * (5 + 1))
    own = [first + second, 5 * (2 + 2) * 10, 5 * (2 + 2) * 3, 0]
    assert of_process("zorba-own") == own
    passes, noise, update, _ = own
    steps = 4 * (2 * 5 + 1) * 2  # each further step begins with its own loss, and each moves the client's blocks
    assert of_process("fedkseed") == [passes + steps, noise, 2 * update, 0]


def test_exact_scalars_go_back_once_and_meet_every_direction():
    forward = 2 * (1 + 2 * 4) + (0.5 + 0.25 * 4)
    # Client 0 goes back through blocks 0 and 1 and has a gradient of 0; client 1 through block 1 and has its gradient.
    back = (3 + 2) / 2 * 7
    assert of_process(estimator="exact") == [forward, 5 * 3 * 0.125, 5 * 3 * 3, back]
    assert of_process("zorba-own", estimator="exact")[1] == 5 * (2 + 2) * 0.125


def test_forward_mode_and_the_first_order():
    jvp = of_process(estimator="jvp")
    assert jvp[0] == 2 * (2 * 5 + 1)
    assert jvp[3] == 5 * (3 + 2) * 7
    passes, noise, _, backward = of_process("fedit", first_order=True)
    assert (passes, noise, backward) == (2 * (1 + 2 * 4) + (0.5 + 0.25 * 4), 0, 2 * 2 * 7)


def test_low_rank_directions_of_wide_blocks_share_a_batch_and_move_nothing():
    load = replace(LOAD, rank=1)
    together = load.directions_at_once(SHAPE.hidden)
    spent = round_seconds(SHAPE, load, with_block(load), direction="gaussian", active_blocks=1, forward_work=1)
    assert together > 5
    assert spent.noise == 0
    batch = seconds_of_rows(BLOCK.ended, 2 * together, load.rows_at_once(SHAPE.hidden))
    assert spent.passes == pytest.approx(2 * 5 + 1 + 5 / together * batch)


def test_rows_go_in_as_few_pieces_as_there_may_be_and_beyond_the_last_point_on_its_line():
    assert seconds_of_rows(BLOCK.passed, 10, 4) == pytest.approx(3 * (1 + 2 * 10 / 3))
    assert seconds_of_rows(BLOCK.passed, 10, 100) == pytest.approx(1 + 2 * 10)
    assert seconds_of_rows(BLOCK.passed, 0, 4) == 0
    bent = ((0.0, 1.0), (4.0, 9.0), (8.0, 11.0))
    assert [seconds_of_rows(bent, rows, 99) for rows in (4, 6, 12)] == pytest.approx([9, 10, 13])


def test_another_length_dtype_direction_or_way_is_another_block():
    loads = [LOAD, replace(LOAD, seq_len=9), replace(LOAD, dtype="bfloat16"), replace(LOAD, estimator="exact")]
    keys = {model_key(SHAPE, load, "gaussian") for load in loads} | {model_key(SHAPE, LOAD, "rademacher")}
    assert len(keys) == 5
    assert model_key(replace(SHAPE, num_blocks=24, name="deeper"), LOAD, "gaussian") in keys
    assert with_block(LOAD).block(SHAPE, loads[1], "gaussian") == GENERAL.general(SHAPE, loads[1], "gaussian")


@pytest.mark.parametrize("way", [{}, {"estimator": "exact"}, {"first_order": True}, {"estimator": "jvp"}])
@pytest.mark.parametrize("family", ["opt", "gpt2", "llama"])
def test_a_models_own_block_is_measured_kept_and_read_back(family, way, monkeypatch):
    monkeypatch.setattr(own_block, "_SECONDS_EACH", 0.0)
    config = {"model_type": family, "vocab_size": 50_000, "eos_token_id": 49_999, "max_position_embeddings": 32}
    if family == "gpt2":
        config |= {"n_embd": 32, "n_layer": 9, "n_head": 4, "n_positions": 32}
    else:
        config |= {"hidden_size": 32, "num_hidden_layers": 9, "num_attention_heads": 4, "word_embed_proj_dim": 32}
        config |= {"ffn_dim": 64, "intermediate_size": 64, "num_key_value_heads": 4, "auto_map": {"AutoConfig": "a.b"}}
    shape, load = shape_from_config(config, family), Load(2, 8, 3, num_clients=2, **way)
    before = torch.get_rng_state()
    measured = with_own_block(GENERAL, config, shape, load, TrainSettings(), "gaussian")
    assert torch.equal(torch.get_rng_state(), before)
    assert list(measured.models) == [model_key(shape, load, "gaussian")]
    assert calibration_of(json.loads(json.dumps(measured.describe()))) == measured
    (block,) = measured.models.values()
    assert [rows for rows, _ in block.passed] == [0, 2, 256, 512]  # a client's, and as many as a cohort takes at once
    assert way or (block.differentiated, block.multiplied) == (own_block._LEAST, own_block._LEAST)
    assert with_own_block(measured, config, shape, load, TrainSettings(), "gaussian") is measured


def test_what_cannot_be_made_or_is_too_large_is_left_to_the_general_rates():
    config = model_config("opt-125m")
    broken = {**config, "activation_function": "no such"}
    assert with_own_block(GENERAL, broken, SHAPE, LOAD, TrainSettings(), "gaussian") is GENERAL
    large = model_shape("opt-30b")
    assert with_own_block(GENERAL, model_config("opt-30b"), large, LOAD, TrainSettings(), "gaussian") is GENERAL


@pytest.mark.parametrize(
    ("model", "changes", "small"),
    [
        ("opt-1.3b", {}, True),
        ("opt-2.7b", {}, True),
        ("opt-30b", {}, False),
        ("opt-1.3b", {"seq_len": 1024, "batch_size": 16}, True),  # in pieces
        ("opt-1.3b", {"seq_len": 2048, "batch_size": 16, "first_order": True}, False),  # which go back together
        ("opt-1.3b", {"seq_len": 512, "batch_size": 16, "estimator": "exact"}, False),
        ("opt-1.3b", {"seq_len": 64, "batch_size": 8, "estimator": "exact"}, False),  # a minute
        ("opt-125m", {"seq_len": 128, "batch_size": 8, "estimator": "exact"}, True),
        ("opt-125m", {"seq_len": 128, "batch_size": 8, "estimator": "jvp"}, True),
        ("opt-125m", {"seq_len": 2048, "batch_size": 8, "estimator": "jvp"}, False),
    ],
)
def test_nobodys_memory_is_filled_by_a_plan(model, changes, small):
    assert own_block.is_small_enough(model_shape(model), replace(LOAD, **changes)) == small


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"passed": [[0, 1]]}, "rows at once of passed must rise from 0"),
        ({"ended": [[0, 1], [3, 2], [3, 2]]}, "rows at once of ended must rise from 0"),
        ({"passed": [[1, 1], [3, 2]]}, "rows at once of passed must rise from 0"),
        ({"ended": [[0, 1], [3, -2]]}, "ended is -2"),
        ({"moved": 0}, "moved is 0"),
        ({"multiplied": float("nan")}, "multiplied is nan"),
    ],
)
def test_a_block_in_a_damaged_file_is_named(change, says):
    content = with_block(LOAD).describe()
    (key,) = content["models"]
    content["models"][key] |= change
    with pytest.raises(InvalidInputError, match=says):
        calibration_of(content)
