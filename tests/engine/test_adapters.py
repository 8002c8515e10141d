"""Adapters (LoRA) as what is trained: directions move them and nothing else."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, PreTrainedModel

from tests.engine.forward_mode import estimate_jvp
from tests.engine.test_blocks import CASES, LABELS, VOCABULARY
from zorba_core.engine.adapters import with_adapters
from zorba_core.engine.blocks import Blocks, is_adapter
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.cohort import estimate_cohort
from zorba_core.engine.estimators.exact import estimate_exact
from zorba_core.engine.estimators.reference import estimate
from zorba_core.engine.rows import Rows
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.runs.export import save_adapters, save_model

FAMILIES = ["opt", "gpt2", "qwen3", "gpt-neox in sequence", "falcon two norms", "bloom", "phi3 windows", "gemma2"]
IN_PART_FLOAT32 = ("bloom", "gemma2")  # in any dtype; the order of sums differs from CPU to CPU
RANK = 3
A_MN = np.array([[1, 0, 0], [0, 1, 1], [1, 0, 1]], dtype=bool)


@pytest.fixture
def prompts() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(1, VOCABULARY, (5, 12), generator=generator), torch.tensor([11, 2, 5, 11, 0])


def label_logits(network: Blocks, token_ids_BL: torch.Tensor, last_B: torch.Tensor) -> torch.Tensor:
    """By the network's pieces."""
    rows = Rows.of_words(token_ids_BL, last_B, torch.zeros_like(last_B), LABELS)
    return rows.scores(network, network(rows))


def own_label_logits(model: PreTrainedModel, token_ids_BL: torch.Tensor, last_B: torch.Tensor) -> torch.Tensor:
    """Each prompt alone and without padding, by the model's own forward pass."""
    rows = [
        model(row[None, : last + 1], use_cache=False).logits[0, -1, LABELS]
        for row, last in zip(token_ids_BL, last_B, strict=True)
    ]
    return torch.stack(rows)


def base(family: str) -> torch.nn.Module:
    model = CASES[family]().eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(1.0 if "norm" in name and name.endswith("weight") else 0.0, 0.25, generator=generator)
    return model


def network_of(family: str, rank: int = RANK, seed: int = 7, *, moved: bool = True, **options: object) -> Blocks:
    network = Blocks(with_adapters(base(family), rank, seed), **options)
    if moved:  # away from B = 0, where half of the numbers change nothing
        generator = torch.Generator().manual_seed(5)
        for m in range(network.num_blocks):
            network.block_weights(m).normal_(0.0, 0.3, generator=generator)
    return network


def batches() -> list[Rows]:
    generator = torch.Generator().manual_seed(3)
    return [
        Rows.of_words(
            torch.randint(1, VOCABULARY, (4, length), generator=generator),
            torch.randint(0, length, (4,), generator=generator),
            torch.randint(0, 3, (4,), generator=generator),
            LABELS,
        )
        for length in (6, 12, 9)
    ]


@torch.no_grad()
def test_a_run_begins_from_the_bases_logits_and_pieces_are_the_adapted_models_own(prompts, subtests):
    for family in FAMILIES:
        with subtests.test(family=family):
            expected = label_logits(Blocks(base(family), dtype=torch.float64), *prompts)
            network = network_of(family, moved=False, dtype=torch.float64)
            assert torch.allclose(label_logits(network, *prompts), expected, rtol=1e-12, atol=1e-12)
            network = network_of(family, dtype=torch.float64)
            adapted = label_logits(network, *prompts)
            assert (adapted - expected).abs().max() > 1e-3
            tolerance = 1e-6 if family in IN_PART_FLOAT32 else 1e-12
            assert torch.allclose(adapted, own_label_logits(network.model, *prompts), rtol=tolerance, atol=tolerance)


def test_a_blocks_vector_is_its_adapters_alone(subtests):
    for family in FAMILIES:
        with subtests.test(family=family):
            model = base(family)
            inside = [name for name, _ in with_adapters(model, RANK, 0).named_parameters() if is_adapter(name)]
            network = network_of(family)
            assert len(inside) == sum(len(network.block_parameters(m)) for m in range(3))
            untouched = {name: p.clone() for name, p in network.model.named_parameters() if not is_adapter(name)}
            for m in range(3):
                network.block_weights(m).add_(1.0)
            assert all(
                torch.equal(p, untouched[name]) for name, p in network.model.named_parameters() if name in untouched
            )


def test_the_cohort_gets_the_rho_of_the_reference(subtests):
    for family in ["opt norm after", "gpt2", "gemma2", "falcon"]:
        for inactive in ["frozen", "dropped"]:
            for dtype, tolerance in [(torch.float32, 1e-5), (torch.float64, 1e-10)]:
                with subtests.test(family=family, inactive=inactive, dtype=dtype, tolerance=tolerance):
                    network = network_of(family, dtype=dtype)
                    directions = Directions("rademacher", network.sizes_M, dtype=dtype)
                    reference = estimate(
                        network, batches(), A_MN, [5, 6], directions, mu=1e-3, inactive=inactive
                    ).rho_NQ
                    cohort = estimate_cohort(
                        network, batches(), A_MN, [5, 6], directions, mu=1e-3, inactive=inactive
                    ).rho_NQ
                    assert np.abs(cohort - reference).max() <= tolerance * np.abs(reference).max()


def test_one_backward_pass_gives_the_derivatives_along_the_adapters(subtests):
    for family in ["opt norm after", "gpt2", "falcon"]:
        for inactive in ["frozen", "dropped"]:
            with subtests.test(family=family, inactive=inactive):
                network = network_of(family, dtype=torch.float64)
                probe = (network, batches(), A_MN, [5, 6], Directions("gaussian", network.sizes_M, dtype=torch.float64))
                forward_mode = estimate_jvp(*probe, inactive=inactive).rho_NQ
                backward = estimate_exact(*probe, inactive=inactive).rho_NQ
                assert np.abs(backward - forward_mode).max() <= 1e-10 * np.abs(forward_mode).max()


def test_the_first_adapters_follow_from_the_seed_alone():
    torch.manual_seed(1)
    first = network_of("opt", moved=False).weights_sha256()
    torch.manual_seed(2)
    assert network_of("opt", moved=False).weights_sha256() == first
    assert network_of("opt", seed=8, moved=False).weights_sha256() != first
    values = network_of("opt", 512, moved=False).block_parameters(0)
    drawn = torch.cat([p.flatten() for name, p in values.items() if ".lora_A." in name])
    assert drawn.std().item() == pytest.approx((3 * 16) ** -0.5, rel=0.02)  # 16 inputs


@torch.no_grad()
@pytest.mark.parametrize("family", ["gpt2", "falcon", "gemma2"])
def test_saved_adapters_are_merged_or_apart(family, tmp_path, prompts):
    network = network_of(family)
    expected = label_logits(network, *prompts)
    fingerprint = save_model(network, tmp_path / "merged")
    merged = Blocks(AutoModelForCausalLM.from_pretrained(tmp_path / "merged"))
    assert merged.weights_sha256() == fingerprint != network.weights_sha256()
    assert not merged.has_adapters
    assert torch.allclose(label_logits(merged, *prompts), expected, rtol=1e-4, atol=1e-4)
    save_adapters(network, tmp_path / "apart", "the base")
    assert not (tmp_path / "apart" / "model.safetensors").exists()
    apart = Blocks(PeftModel.from_pretrained(base(family), tmp_path / "apart"))
    assert torch.equal(label_logits(apart, *prompts), expected)
    assert torch.equal(label_logits(network, *prompts), expected)


def test_a_model_without_layers_for_adapters_is_refused_with_the_layers_that_it_has():
    with pytest.raises(InvalidInputError, match=r"this ctrl model have none .* \(they have .*Wq.*train the blocks"):
        with_adapters(base("ctrl"), RANK, 0)


def test_without_peft_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingDataError, match=r"lora_rank needs PEFT: pip install 'peft>=0.21,<0.22'"):
        with_adapters(base("opt"), RANK, 0)


def test_only_adapters_can_be_saved_apart(tmp_path):
    with pytest.raises(InvalidInputError, match="has no adapters"):
        save_adapters(Blocks(base("opt")), tmp_path / "apart", "the base")
