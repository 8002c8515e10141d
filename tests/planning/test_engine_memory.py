"""The derived memory of the engine: equal to what fake tensors count, and to what real passes hold."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    FalconConfig,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    OPTConfig,
    Phi3Config,
    PhiConfig,
    Qwen2Config,
    Qwen3Config,
)

from zorba_core.engine import products
from zorba_core.engine.aggregation import update_blocks
from zorba_core.engine.directions import Directions
from zorba_core.engine.estimators.client_gradients import ClientGradients
from zorba_core.engine.estimators.cohort import estimate_cohort, rows_at_once
from zorba_core.engine.estimators.exact import estimate_exact
from zorba_core.engine.estimators.jvp import estimate_jvp
from zorba_core.engine.estimators.reference import estimate
from zorba_core.engine.evaluation import BATCH_SIZE
from zorba_core.engine.methods.first_order import gradient_cohort
from zorba_core.engine.network import BlockNetwork
from zorba_core.engine.rows import Encoded
from zorba_core.errors import InvalidInputError
from zorba_core.planning import gradient_plan
from zorba_core.planning.answers import LABEL_WORDS, AnswerShape
from zorba_core.planning.engine_memory import EVALUATION_ROWS, Load, footprint, most_resident_blocks
from zorba_core.planning.lora import Lora
from zorba_core.planning.memory import GIB
from zorba_core.planning.models import model_spec
from zorba_core.planning.shapes import model_shape, shape_from_config
from zorba_core.runs.fake_passes import passes_of
from zorba_core.runs.memory_estimate import client_peak, gradient_peak
from zorba_core.runs.tensor_bytes import TensorBytes, rounded

_H, _M = 96, 3
_OPT = {
    "vocab_size": 200, "hidden_size": _H, "ffn_dim": 4 * _H, "num_hidden_layers": _M, "num_attention_heads": 4,
    "max_position_embeddings": 128, "word_embed_proj_dim": _H,
}  # fmt: skip
_LLAMA = {
    "vocab_size": 200, "hidden_size": _H, "intermediate_size": 256, "num_hidden_layers": _M, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128,
}  # fmt: skip
_SMALL = {"vocab_size": 200, "hidden_size": _H, "num_hidden_layers": _M, "num_attention_heads": 4}
CONFIGS = {
    "opt": OPTConfig(**_OPT),
    "opt, wide": OPTConfig(**{**_OPT, "ffn_dim": 8 * _H}),
    "opt, gelu": OPTConfig(**_OPT, activation_function="gelu"),
    "opt, norm after": OPTConfig(**{**_OPT, "word_embed_proj_dim": 48}, do_layer_norm_before=False),
    "gpt2": GPT2Config(vocab_size=200, n_embd=_H, n_layer=_M, n_head=4, n_positions=128),
    "llama": LlamaConfig(**_LLAMA),
    "llama, narrow": LlamaConfig(**{**_LLAMA, "intermediate_size": 128, "num_key_value_heads": 4}),
    "qwen2": Qwen2Config(**_LLAMA),
    "qwen3": Qwen3Config(**_LLAMA, head_dim=32),
    "mistral": MistralConfig(**_LLAMA),
    "gemma3": Gemma3TextConfig(**_LLAMA, head_dim=24),
    "phi": PhiConfig(**_SMALL, intermediate_size=4 * _H, max_position_embeddings=128),
    "phi3": Phi3Config(**_LLAMA, pad_token_id=0),
    "gpt-neox": GPTNeoXConfig(**_SMALL, intermediate_size=4 * _H, max_position_embeddings=128),
}


@pytest.fixture(params=CONFIGS)
def config(request):
    return CONFIGS[request.param]


def test_a_block_holds_what_fake_tensors_count(config):
    """One client's rows at once, and a backward pass, family after family: within two per cent."""
    rows, length = 8, 64
    shape, state = shape_from_config(config.to_dict(), "m"), rows * length * 4
    counted = client_peak(config, batch_size=rows, seq_len=length, dtype=torch.float32)
    assert shape.working_width(length) * state == pytest.approx(counted.activations, rel=0.02)
    assert shape.block_parameters * 4 == counted.perturbation
    assert shape.parameters * 4 == pytest.approx(counted.parameters, rel=0.01)  # counted in grains of 512 bytes
    passes = passes_of(config.to_json_string(), type(config), torch.float32, None)
    in_full = passes.backward(rows, length, LABEL_WORDS, last_in_full=True)
    assert state * (_M * shape.saved_width + shape.backward_width) == pytest.approx(in_full, rel=0.02)


def test_first_order_passes_hold_what_fake_tensors_count(config):
    """All gradients and what is kept for them, the last block where answers are: within an eighth, family after
    family; their sum exactly."""
    counted = gradient_peak(config, rows=16, seq_len=64, dtype=torch.float32)
    terms = footprint(shape_from_config(config.to_dict(), "m"), Load(16, 64, 0, first_order=True))
    assert named(terms, "sums of the gradients") == counted.perturbation
    assert named(terms, "tensors kept, and gradients") == pytest.approx(counted.activations, rel=0.125)


@pytest.mark.parametrize(
    "config", [Gemma2Config(**_LLAMA, head_dim=24), FalconConfig(**_SMALL)], ids=["gemma2", "falcon"]
)
def test_attention_that_writes_its_scores_out_holds_them(config):
    for length in (64, 128):
        shape = shape_from_config(config.to_dict(), "m")
        counted = client_peak(config, batch_size=8, seq_len=length, dtype=torch.float32)
        assert shape.working_width(length) * 8 * length * 4 == pytest.approx(counted.activations, rel=0.1)


@pytest.mark.parametrize("targets", [(), ("all",)], ids=["queries and values", "every layer"])
def test_adapters_are_what_is_moved_and_what_is_added(targets):
    """Within two per cent of fake tensors; an adapter's own products take no more than a block's widest tensors do."""
    config, lora = CONFIGS["llama"], Lora(4, 8.0, targets)
    shape = shape_from_config(config.to_dict(), "m", lora)
    counted = client_peak(config, batch_size=8, seq_len=64, dtype=torch.float32, lora=lora)
    assert shape.trained_parameters * 4 == counted.perturbation
    assert shape.parameters * 4 == pytest.approx(counted.parameters, rel=0.02)  # adapters are small and in grains
    terms = footprint(shape, Load(8, 64, 1))
    assert named(terms, "weights put aside") == shape.trained_parameters * 4
    assert terms.peak < footprint(shape_from_config(config.to_dict(), "m"), Load(8, 64, 1)).peak
    with pytest.raises(InvalidInputError, match="training adapters needs every block at once"):
        footprint(shape, Load(8, 64, 1), resident_blocks=2)


@pytest.mark.parametrize("answers", [AnswerShape(1, 12, True), AnswerShape(5, 3, True)], ids=["text", "options"])
@pytest.mark.parametrize("vocabulary", [200, 50_000])
def test_answers_of_several_tokens_need_their_rows_and_the_vocabularys_logits(answers, vocabulary):
    config = OPTConfig(**{**_OPT, "vocab_size": vocabulary})
    shape = shape_from_config(config.to_dict(), "m")
    counted = client_peak(config, batch_size=4, seq_len=32, dtype=torch.float32, answers=answers)
    terms = footprint(shape, Load(4, 32, 1, answers=answers))
    assert named(terms, "hidden states") == 4 * answers.rows * 32 * _H * 4
    aside = named(terms, "weights put aside") + named(terms, "noise of a piece") + named(terms, "token ids")
    kept = named(terms, "states before the first active block")  # the count is of one pass, without a copy
    assert terms.of("estimate") - aside - kept == pytest.approx(counted.activations, rel=0.25)


def real(config, clients: int, rows: int, length: int):
    torch.manual_seed(0)
    own = type(config).from_dict(config.to_dict())
    network = BlockNetwork(AutoModelForCausalLM.from_config(own), [5, 6])
    generator = torch.Generator().manual_seed(0)
    batches = [
        Encoded(
            torch.randint(2, 200, (rows, length), generator=generator),
            torch.full((rows,), length - 1),
            torch.randint(0, 2, (rows,), generator=generator),
        )
        for _ in range(clients)
    ]
    return network, batches, Directions("gaussian", network.sizes_M)


def named(terms, name: str, phase: str = "estimate") -> int:
    return sum(term.num_bytes for term in terms.terms if (term.phase, term.name) == (phase, name))


@pytest.mark.parametrize("clients", [1, 12])
def test_a_cohort_holds_the_terms_of_its_estimate(clients):
    """Real tensors: the noise goes through NumPy, which this counter does not see, and tokens came before it."""
    rows, length = 16, 48
    network, batches, directions = real(CONFIGS["opt"], clients, rows, length)
    A_MN = np.ones((_M, clients), dtype=bool)
    with TensorBytes() as count:
        estimate_cohort(network, batches, A_MN, [1, 2], directions, mu=1e-3)
    load = Load(rows, length, 2, num_clients=clients)
    terms = footprint(shape_from_config(CONFIGS["opt"].to_dict(), "m"), load)
    assert count.peak == pytest.approx(terms.of("estimate") - named(terms, "noise of a piece"), rel=0.05)


class WrittenBytes(TensorBytes):
    """Counts a table of gradients as what was written of it: so much of it is resident."""

    def __init__(self) -> None:
        super().__init__()
        self._table, self._written = 0, np.zeros(0, bool)

    def follow(self, table: Tensor) -> None:
        storage = table.untyped_storage()
        if storage._cdata != self._table:
            self.now += rounded(self._written.nbytes * 4) - 4 * np.count_nonzero(self._written)  # freed as a whole
            self._table, self._written = storage._cdata, np.zeros(storage.nbytes() // 4, bool)
            self.now -= rounded(storage.nbytes())

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = super().__torch_dispatch__(func, types, args, kwargs)
        if func._schema.is_mutable:
            self.wrote([made] if isinstance(made, Tensor) else args[0])  # one, or several (_foreach_copy_)
        return made

    def wrote(self, targets: Iterable[Tensor]) -> None:
        """Also by NumPy, which no dispatch mode sees."""
        before = np.count_nonzero(self._written)
        for target in targets:
            if target.untyped_storage()._cdata == self._table:
                for row in target if target.dim() > 1 else [target]:
                    start = row.storage_offset()
                    self._written[start : start + row.numel()] = True
        self.now += 4 * (np.count_nonzero(self._written) - before)
        self.peak = max(self.peak, self.now)


@pytest.mark.parametrize("name", list(CONFIGS))
@pytest.mark.parametrize("active", [1, 2, _M])
def test_exact_scalars_hold_the_terms_of_their_passes(name, active, monkeypatch):
    """Shares of several pieces, of clients whose blocks begin at different ones."""
    monkeypatch.setattr(gradient_plan, "LEAST_BYTES", 2**24)
    monkeypatch.setattr(gradient_plan, "POSITIONS_CPU", 600)
    rows, length, clients = 8, 32, 9
    network, batches, directions = real(CONFIGS[name], clients, rows, length)
    A_MN = np.zeros((_M, clients), bool)
    for n in range(clients):
        A_MN[(n + np.arange(active)) % _M, n] = True
    count, tables, put_products = WrittenBytes(), ClientGradients.tables, products.put_products

    def followed(self, *args):
        tables_M = tables(self, *args)
        count.follow(tables_M[0][1])
        return tables_M

    def put(parts, left_CPO, right_CPI):
        put_products(parts, left_CPO, right_CPI)
        count.wrote(part for part, _ in parts)

    monkeypatch.setattr(ClientGradients, "tables", followed)
    monkeypatch.setattr(products, "put_products", put)
    with count:
        estimate_exact(network, batches, A_MN, [1, 2], directions)
    load = Load(rows, length, 2, num_clients=clients, estimator="exact")
    terms = footprint(shape_from_config(CONFIGS[name].to_dict(), "m"), load, active_blocks=A_MN)
    unseen = named(terms, "noise of a piece") + named(terms, "token ids") + named(terms, "random bits")
    assert count.peak == pytest.approx(terms.of("estimate") - unseen, rel=0.1)


@pytest.mark.parametrize("name", ["opt", "gpt2", "llama"])
@pytest.mark.parametrize(("rows", "length"), [(16, 48), (16, 128)])
def test_a_derivative_holds_the_terms_of_its_pass(name, rows, length):
    """Scores decide at the long rows, and other tensors at the short ones."""
    network, batches, directions = real(CONFIGS[name], 1, rows, length)
    with TensorBytes() as count:
        estimate_jvp(network, batches, np.ones((_M, 1), bool), [1], directions)
    shape = shape_from_config(CONFIGS[name].to_dict(), "m")
    terms = footprint(shape, Load(rows, length, 1, estimator="jvp"))
    unseen = named(terms, "noise of a piece") + named(terms, "token ids")
    assert count.peak == pytest.approx(terms.of("estimate") - unseen, rel=0.15)


def test_the_reference_puts_every_active_block_aside_and_the_cohort_one():
    rows, length = 4, 16
    shape = shape_from_config(CONFIGS["opt"].to_dict(), "m")
    network, batches, directions = real(CONFIGS["opt"], 1, rows, length)
    for active in (1, 3):
        A_MN = np.arange(_M)[:, None] < active
        with TensorBytes() as count:
            estimate(network, batches, A_MN, [1], directions, mu=1e-3)
        load = Load(rows, length, 1, estimator="reference")
        terms = footprint(shape, load, active_blocks=[active])
        unseen = named(terms, "noise of a piece") + named(terms, "token ids")
        assert count.peak == pytest.approx(terms.of("estimate") - unseen, rel=0.1)
    assert footprint(shape, Load(rows, length, 1), active_blocks=[1]) == footprint(shape, Load(rows, length, 1))


def test_the_update_and_the_gradient_hold_their_terms():
    rows, length = 8, 32
    shape = shape_from_config(CONFIGS["opt"].to_dict(), "m")
    network, batches, directions = real(CONFIGS["opt"], 2, rows, length)
    with TensorBytes() as count:
        update_blocks(network, np.ones((_M, 2)), [1, 2], directions, 1e-6)
    terms = footprint(shape, Load(rows, length, 2))
    assert count.peak == pytest.approx(terms.of("update") - named(terms, "noise of a piece", "update"), rel=0.1)
    with TensorBytes() as count:
        gradient_cohort(network, batches)
    load = Load(rows, length, 0, num_clients=2, first_order=True)
    assert count.peak == pytest.approx(footprint(shape, load).of("estimate"), rel=0.05)


def test_the_plan_cuts_a_cohort_into_the_engines_pieces():
    for width, length in ((64, 8), (96, 64), (768, 128), (2048, 2000)):
        config = OPTConfig(
            **{**_OPT, "hidden_size": width, "word_embed_proj_dim": width, "num_hidden_layers": 1, "ffn_dim": 8}
        )
        network = BlockNetwork(AutoModelForCausalLM.from_config(config), [5, 6])
        assert Load(10_000, length, 1).rows_at_once(width) == rows_at_once(network, length)
    assert EVALUATION_ROWS == BATCH_SIZE


def test_streaming_holds_blocks_and_hidden_states_and_not_the_model():
    """OPT-1.3B, B=8, L=128, Q=10, float32: engine's design says under 1 GiB but for the blocks put aside and read."""
    shape, load = model_shape("opt-1.3b"), Load(8, 128, 10)
    terms = {(term.phase, term.name): term.num_bytes for term in footprint(shape, load, resident_blocks=2).terms}
    block = 4 * (12 * 2048**2 + 13 * 2048)
    assert terms["always", "resident blocks"] == 2 * block
    assert terms["estimate", "hidden states"] == 11 * 8 * 128 * 2048 * 4  # 92 MB
    assert terms["always", "embedding rows in use"] == 8 * 128 * 2048 * 4
    assert footprint(shape, load, resident_blocks=2).peak < GIB < footprint(shape, load).peak / 5


def test_as_many_blocks_stay_as_there_is_room_for():
    shape, load = model_shape("opt-125m"), Load(8, 128, 10)
    for gib in (0.16, 0.25, 0.4, 5.0):
        resident = most_resident_blocks(shape, load, gib * GIB)
        assert footprint(shape, load, resident_blocks=resident).peak <= gib * GIB
        if resident < 12:
            assert footprint(shape, load, resident_blocks=resident + 1).peak > gib * GIB
    assert most_resident_blocks(shape, load, 0.05 * GIB) is None


@pytest.mark.parametrize("name", ["opt-125m", "opt-350m", "opt-1.3b", "opt-2.7b", "opt-30b"])
def test_a_preset_has_the_parameters_of_its_published_config(name):
    assert model_shape(name).parameters == pytest.approx(model_spec(name).num_parameters, rel=0.013)


def test_what_cannot_be_is_refused_by_name():
    shape = model_shape("opt-125m")
    with pytest.raises(InvalidInputError, match="resident blocks is 1; it must be from 2"):
        footprint(shape, Load(8, 128, 10), resident_blocks=1)
    with pytest.raises(InvalidInputError, match="FedIT needs every block at once"):
        footprint(shape, Load(8, 128, 0, first_order=True), resident_blocks=2)
    with pytest.raises(InvalidInputError, match="batch_size is 0"):
        Load(0, 128, 10)
