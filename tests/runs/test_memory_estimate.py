from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from transformers import AutoConfig, OPTConfig, OPTForCausalLM

from tests.benchmarks.bench_cuda_memory import settings_on_card
from tests.benchmarks.bench_engine_memory import activated, config_of
from zorba_core.checksums import read_sealed
from zorba_core.engine.choice_rows import ChoiceRows
from zorba_core.engine.directions import Directions, directions_of
from zorba_core.engine.estimators import cohort
from zorba_core.engine.estimators.cohort import _PIECE_ELSEWHERE, estimate_cohort, rows_at_once
from zorba_core.engine.estimators.exact import estimate_exact
from zorba_core.engine.estimators.jvp import estimate_jvp
from zorba_core.engine.estimators.reference import estimate
from zorba_core.engine.estimators.registry import estimator_of
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.row_kinds import AnswerShape
from zorba_core.engine.rows import Encoded
from zorba_core.engine.settings import TrainSettings
from zorba_core.engine.text_rows import TextRows
from zorba_core.planning.answers import LABEL_WORDS
from zorba_core.planning.memory import Workload, psi_block_bytes, psi_model_bytes
from zorba_core.planning.models import model_spec
from zorba_core.runs.fake_passes import passes_of
from zorba_core.runs.memory_estimate import client_peak, gradient_peak, run_peak
from zorba_core.runs.memory_meter import MemoryMeter
from zorba_core.runs.needs import process_needs
from zorba_core.runs.tensor_bytes import TensorBytes

MIB = 2**20
ON_A_CARD = Path(__file__).resolve().parents[2] / "artifacts/benchmarks/gpu-memory.json"
OPT_125M = OPTConfig()  # Hugging Face's default is that size


def test_psi_charges_opt_125m_seventy_times_the_activations_that_forward_passes_hold():
    """B=8, L=128, float32, all 12 blocks active: psi 1953.2 MiB, counted 525.8 MiB."""
    spec, workload = model_spec("opt-125m"), Workload(8, 128)
    psi_block = psi_block_bytes(spec, workload)
    assert psi_model_bytes(spec, workload) / MIB == pytest.approx(477.2, abs=0.1)
    assert psi_block / MIB == 123.0
    peak = client_peak(OPT_125M, batch_size=8, seq_len=128, dtype=torch.float32)
    assert peak.parameters / MIB == pytest.approx(477.75, abs=0.01)
    assert peak.perturbation / MIB == pytest.approx(27.04, abs=0.01)  # one block: 7.09 million parameters
    assert peak.activations / MIB == pytest.approx(21.0, abs=0.1)
    assert peak.total / MIB == pytest.approx(525.8, abs=0.2)
    # The widest place: one feed-forward state of alpha BLH numbers (the activation is taken in place) and three hidden
    # states, where psi's terms for one block, with Q, K and V once instead of K times, are (alpha + 3 + 1) BLH.
    BLH = 8 * 128 * 768 * 4
    assert peak.activations == pytest.approx((4 + 3) * BLH, rel=0.01)
    assert psi_block == (4 + 3 * 12 + 1) * BLH
    assert 12 * psi_block / peak.activations == pytest.approx(70.3, abs=0.1)


def test_the_peak_does_not_grow_with_the_number_of_blocks_and_grows_with_the_batch(tiny_config):
    def activations(num_blocks: int, batch_size: int) -> int:
        config = tiny_config(num_hidden_layers=num_blocks)
        return client_peak(config, batch_size=batch_size, seq_len=32, dtype=torch.float32).activations

    assert activations(2, 8) == activations(8, 8)
    assert activations(2, 32) == pytest.approx(4 * activations(2, 8), rel=0.05)


def test_weights_in_16_bits_take_half_and_the_arithmetic_stays_in_32(tiny_config):
    single, half = (
        client_peak(tiny_config(), batch_size=8, seq_len=32, dtype=dtype) for dtype in (torch.float32, torch.bfloat16)
    )
    assert half.parameters == pytest.approx(single.parameters / 2, rel=0.05)
    assert half.activations == single.activations


@pytest.fixture
def tiny_config():
    sizes = {
        "vocab_size": 200, "hidden_size": 64, "ffn_dim": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
        "max_position_embeddings": 64, "word_embed_proj_dim": 64,
    }  # fmt: skip
    return lambda **changes: OPTConfig(**(sizes | changes))


@pytest.mark.parametrize("precision", ["highest", "bf16"])
@pytest.mark.parametrize("estimator", ["cohort", "reference", "jvp", "exact"])
def test_what_the_estimators_really_hold_is_what_is_counted(tiny_config, estimator, precision):
    """The same counter over the real computation, real tensors and real noise."""
    config = tiny_config()
    settings = TrainSettings(batch_size=16, seq_len=32, num_perturbations=2, estimator=estimator, precision=precision)
    network = BlockNetwork(OPTForCausalLM(config), [5, 6], precision=precision)
    generator = torch.Generator().manual_seed(0)
    batches = [
        Encoded(
            torch.randint(2, 200, (16, 32), generator=generator),
            torch.full((16,), 31),
            torch.randint(0, 2, (16,), generator=generator),
        )
        for _ in range(3)
    ]
    A_MN = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 1], [1, 0, 1]], dtype=bool)
    directions = Directions("rademacher", network.sizes_M)
    run = {"cohort": estimate_cohort, "reference": estimate, "jvp": estimate_jvp, "exact": estimate_exact}[estimator]
    with TensorBytes() as count:
        run(network, batches, A_MN, [1, 2], directions, mu=1e-3)
    peak = run_peak(config, A_MN, settings, rows_at_once=rows_at_once(network, 32))
    counted = peak.perturbation + peak.activations
    assert count.peak == pytest.approx(counted, rel=0.2)


@pytest.mark.parametrize("estimator", ["cohort", "exact"])
def test_copies_in_32_bits_are_counted(tiny_config, estimator):
    """Of a block of the base pass too, which goes through with all rows; of all blocks by exact scalars."""
    config = tiny_config(hidden_size=128, word_embed_proj_dim=128, ffn_dim=512)
    settings = TrainSettings(batch_size=2, seq_len=16, num_perturbations=2, estimator=estimator, dtype="bfloat16")
    network = BlockNetwork(OPTForCausalLM(config).bfloat16(), [5, 6], dtype=torch.bfloat16)
    rows = Encoded(torch.full((2, 16), 7), torch.full((2,), 15), torch.zeros(2, dtype=torch.long))
    A_MN = np.ones((4, 4), dtype=bool) if estimator == "exact" else np.eye(4, dtype=bool)
    with TensorBytes() as count:
        estimator_of(settings)(network, [rows] * 4, A_MN, [1, 2], directions_of(network, settings))
    counted = run_peak(config, A_MN, settings, rows_at_once=rows_at_once(network, 16))
    assert counted.perturbation >= (4 if estimator == "exact" else 1) * 4 * network.sizes_M[0]
    assert count.peak == pytest.approx(counted.perturbation + counted.activations, rel=0.15)


@pytest.mark.parametrize("run", [estimate, estimate_jvp])
def test_one_direction_is_held_at_a_time(tiny_config, run):
    network = BlockNetwork(OPTForCausalLM(tiny_config()), [5, 6])
    rows = Encoded(torch.full((2, 8), 7), torch.full((2,), 7), torch.zeros(2, dtype=torch.long))
    directions = Directions("rademacher", network.sizes_M)
    peaks = []
    for seeds in ([1], [1, 2, 3]):
        with TensorBytes() as count:
            run(network, [rows], np.arange(4)[:, None] < 1, seeds, directions, mu=1e-3)
        peaks.append(count.peak)
    assert peaks[0] == peaks[1]


@pytest.mark.parametrize(("precision", "states"), [("highest", 8.0), ("bf16", 5.5)])
def test_a_cohort_on_a_gpu_is_counted_as_its_joined_blocks_hold_it(tiny_config, precision, states, monkeypatch):
    """What they hold, on the CPU: measured on an H100 the count was 0.998 of the peak (512 wide, 320 rows, bf16)."""
    config = tiny_config()
    network = BlockNetwork(OPTForCausalLM(config), [5, 6], precision=precision)
    network._family.joins = True
    monkeypatch.setattr(cohort, "_PIECE_CPU", 2**26)  # all rows in one piece, as on a GPU
    generator = torch.Generator().manual_seed(0)
    ids_RL = torch.randint(2, 200, (256, 32), generator=generator)
    rows = Encoded(ids_RL, torch.full((256,), 31), torch.zeros(256, dtype=torch.long))
    directions = Directions("rademacher", network.sizes_M)
    with TensorBytes() as count:
        estimate_cohort(network, [rows], np.ones((4, 1), dtype=bool), [1], directions, mu=1e-3)
    counted = passes_of(config.to_json_string(), OPTConfig, torch.float32, None, on_cuda=True).peak(
        256, 32, kept_states=1, evaluation_rows=0, precision=precision
    )
    state = 256 * 32 * 64 * 4
    assert counted.activations / state == pytest.approx(states, rel=0.05)
    assert count.peak == pytest.approx(counted.perturbation + counted.activations, rel=0.1)


@pytest.mark.parametrize("model", ["opt 128x4", "opt-mini", "opt 384x8", "llama 512x6", "gpt2 512x6"])
def test_what_a_card_was_measured_to_hold_is_counted(model, monkeypatch):
    """Within a tenth, but for forward mode and exact scalars (artifacts/benchmarks/training.md)."""
    monkeypatch.setattr(TrainSettings, "_check_device", lambda settings: None)  # the card is elsewhere
    values = config_of(model)
    config = AutoConfig.for_model(values.pop("model_type"), **values)
    rows = [row for row in read_sealed(ON_A_CARD)["rows"] if row["model"] == model]
    rows = [row for row in rows if row["estimator"] not in ("jvp", "exact")]
    assert len(rows) >= 6
    for row in rows:
        at_once = _PIECE_ELSEWHERE // config.hidden_size // row["seq_len"]
        counted = process_needs(
            config, activated(row, config.num_hidden_layers), settings_on_card(row), LABEL_WORDS, at_once
        )
        # A block's copy in 32 bits stood there from the round before, and is not in what was measured.
        stood = counted.perturbation if row["dtype"] == "bfloat16" else 0
        assert counted.total - counted.parameters - stood == pytest.approx(row["measured_bytes"], rel=0.1), row


def test_a_tensor_is_counted_once_while_it_lives():
    with TensorBytes() as count:
        first = torch.zeros(1000)  # 4,000 bytes are 8 grains
        view = first[10:].view(-1)
        assert count.now == 4096
        del first
        assert count.now == 4096
        F.relu(view)
        assert (count.now, count.peak) == (4096, 8192)
        del view
    assert count.now == 0


def test_the_meter_sees_what_was_touched_between_begin_and_end():
    meter = MemoryMeter("cpu")
    meter.begin()
    block = np.ones(2**23)  # 64 MiB
    del block
    measured = meter.describe()
    if measured["bytes"] is None:
        pytest.skip("needs Linux's /proc")
    assert 60 * MIB < measured["bytes"] < 90 * MIB


def test_answers_of_several_tokens_add_pieces_of_the_vocabulary_and_no_more():
    """Where text is written, logits of every word are computed for the answers' positions, piece by piece; rows of a
    choice count as rows."""
    config = OPTConfig(vocab_size=50_000, hidden_size=64, ffn_dim=128, num_hidden_layers=2, num_attention_heads=4)
    sizes = {"batch_size": 4, "seq_len": 32, "dtype": torch.float32}
    words = client_peak(config, **sizes)
    text = client_peak(config, **sizes, answers=AnswerShape(1, 8, True))
    choice = client_peak(config, **sizes, answers=AnswerShape(3, 2, True))
    every_logit = 4 * 32 * 50_000 * 8
    assert words.activations < text.activations < every_logit
    # A piece of 2^15 words: the 32 answer positions' logits and the head's part, in 64 bits.
    assert text.activations == pytest.approx(8 * (32 + 64) * 2**15, rel=0.05)
    assert choice.activations > words.activations
    assert words == client_peak(config, **sizes, answers=AnswerShape())
    gradient = gradient_peak(config, rows=4, seq_len=32, dtype=torch.float32, answers=AnswerShape(1, 8, True))
    assert gradient.activations > 4 * 8 * 50_000 * 8  # backward keeps all logits of the answers


@pytest.mark.parametrize("answers", [AnswerShape(1, 8, True), AnswerShape(3, 2, True)])
def test_exact_scalars_of_longer_answers_are_counted_as_they_are_held(answers):
    """The same counter over the real computation: backward keeps logits of every word, and rows of a choice count."""
    from transformers import OPTForCausalLM

    config = OPTConfig(vocab_size=3000, hidden_size=64, ffn_dim=256, num_hidden_layers=3, num_attention_heads=4)
    settings = TrainSettings(batch_size=4, seq_len=32, num_perturbations=2, estimator="exact")
    network = BlockNetwork(OPTForCausalLM(config), [])
    rng = np.random.default_rng(0)
    if answers.rows == 1:
        rows = [
            TextRows(
                torch.from_numpy(rng.integers(2, 3000, (4, 32))),
                torch.full((4,), 24),
                torch.from_numpy(rng.integers(2, 3000, (4, 8))),
            )
            for _ in range(3)
        ]
    else:
        options = [(token, last) for token in (5, 6, 7) for last in (8, 9)]  # three first tokens: three rows
        rows = [
            ChoiceRows.of(rng.integers(2, 3000, (4, 31)).tolist(), [options] * 4, np.zeros(4, dtype=int), 32, 0)
            for _ in range(3)
        ]
    A_MN = np.array([[1, 1, 0], [1, 0, 1], [1, 0, 1]], dtype=bool)
    with TensorBytes() as count:
        estimate_exact(network, rows, A_MN, [1, 2], Directions("rademacher", network.sizes_M))
    peak = run_peak(config, A_MN, settings, rows_at_once=1, answers=answers)
    counted = peak.perturbation + peak.activations  # of the largest piece beside the largest share, who seldom meet
    assert 0.7 * counted <= count.peak <= counted
