import dataclasses
import hashlib
import json

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from zorba_core.cli import build_app
from zorba_core.data.encode import encode, head_tokens, with_label_words
from zorba_core.data.load import load
from zorba_core.data.task import TASKS
from zorba_core.engine.blocks import Blocks
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.runs.models import load_model, load_tokenizer
from zorba_core.study.base_model.build import make_base
from zorba_core.study.base_model.model import accuracy, blocks_of, build_model
from zorba_core.study.base_model.optimizer import orthogonal_factor
from zorba_core.study.base_model.recipe import DONOR_WORDS, FULL, LLAMA, TINY


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The tiny profile, made once: (folder, facts)."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    return folder, make_base(folder, seed=0, profile="tiny")


def recomputed(source, task_name, words):
    task, tokenizer = TASKS[task_name], load_tokenizer(source)
    rows = encode(task, load(task_name, TASKS[task_name].rows.evaluation_split), tokenizer, 64)
    return accuracy(load_model(source), rows, head_tokens(with_label_words(task, words), tokenizer))


def test_a_model_that_another_process_made_meanwhile_is_kept(tmp_path, monkeypatch):
    def made_twice(work, name, *_):
        (work / "mine").touch()
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "theirs").touch()
        return {}

    monkeypatch.setattr("zorba_core.study.base_model.build._make", made_twice)
    with pytest.raises(InvalidInputError, match="new exists now; name another folder, or --force to replace it"):
        make_base(tmp_path / "new", profile="tiny")
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "theirs"]


def test_an_empty_folder_or_a_link_to_one_becomes_the_model(tmp_path, monkeypatch):
    monkeypatch.setattr("zorba_core.study.base_model.build._make", lambda work, *_: (work / "mine").touch() or {})
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for name in ("link", "empty"):
        make_base(tmp_path / name, profile="tiny")
        assert (tmp_path / name / "mine").is_file()


def test_the_folder_loads_with_transformers_alone(made):
    folder, facts = made
    model = AutoModelForCausalLM.from_pretrained(folder, use_safetensors=True)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert sum(weight.numel() for weight in model.parameters()) == facts["num_parameters"]
    assert len(tokenizer) == facts["vocab_size"] == model.config.vocab_size
    assert tokenizer("a lovely film").input_ids[0] == tokenizer.bos_token_id
    assert (tokenizer.padding_side, tokenizer.pad_token_id) == ("right", model.config.pad_token_id)


def test_the_card_and_its_numbers_tell_what_the_saved_weights_do(made):
    folder, facts = made
    assert json.loads((folder / "zorba.json").read_text())["tasks"] == json.loads(json.dumps(facts["tasks"]))
    toy = facts["tasks"]["toy-reviews"]
    assert recomputed(folder, "toy-reviews", toy["donor_words"]) == toy["donor_accuracy"]
    assert recomputed(folder, "toy-reviews", toy["label_words"]) == toy["start_accuracy"]
    card = (folder / "README.md").read_text()
    assert f"| {toy['donor_accuracy']:.3f} | {toy['start_accuracy']:.3f} | {toy['ceiling_accuracy']:.3f} |" in card
    assert facts["weights_sha256"] == hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def test_the_base_learns_its_donor_words_and_not_the_label_words(made):
    toy = made[1]["tasks"]["toy-reviews"]
    assert toy["donor_accuracy"] > 0.65
    assert toy["donor_accuracy"] > toy["start_accuracy"]


def test_a_folder_in_use_is_refused_before_any_work_and_replaced_by_force(made, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInputError, match="is not empty: name another folder, or --force"):
        make_base(folder, profile="tiny")
    assert (folder / "notes.txt").read_text() == "mine"
    other = make_base(folder, seed=1, profile="tiny", force=True)
    assert other["weights_sha256"] != made[1]["weights_sha256"]
    assert sorted(file.name for file in folder.iterdir()) == sorted(file.name for file in made[0].iterdir())
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_a_failure_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.delenv("ZORBA_DATA", raising=False)
    with pytest.raises(MissingDataError, match=r"no text corpus: set ZORBA_DATA .* --profile tiny"):
        make_base(tmp_path / "model", profile="full")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"), [({"profile": "huge"}, "choose one of full, llama, tiny"), ({"threads": 0}, "at least 1")]
)
def test_wrong_options_are_refused(options, message, tmp_path):
    with pytest.raises(InvalidInputError, match=message):
        make_base(tmp_path / "model", **options)


def test_the_command_makes_the_same_weights_from_the_same_seed_and_prints_one_json_object(made, tmp_path, capsys):
    build_app()(["make-base", "--out", str(tmp_path / "m"), "--profile", "tiny", "--json"], standalone_mode=False)
    captured = capsys.readouterr()
    assert json.loads(captured.out)["weights_sha256"] == made[1]["weights_sha256"]
    assert "step 160 of 160" in captured.err


def test_new_weights_depend_on_the_seed_alone_and_not_on_global_state():
    torch.manual_seed(1)
    first = build_model(TINY, 300, seed=5).state_dict()
    torch.manual_seed(2)
    second = build_model(TINY, 300, seed=5).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_llama_is_another_architecture_with_blocks_that_the_engine_runs():
    recipe = dataclasses.replace(TINY, architecture="llama", num_key_heads=1)
    model = build_model(recipe, 300, seed=5)
    assert model.config.model_type == "llama"
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert len(blocks_of(model)) == recipe.num_blocks
    assert blocks_of(model)[0].self_attn.k_proj.out_features == recipe.hidden_size // recipe.num_heads
    network, ids = Blocks(build_model(recipe, 300, seed=5)), torch.arange(4, 24)[None]
    with torch.no_grad():
        hidden = network.embed(ids)
        for m in range(network.num_blocks):
            hidden = network.run_block(m, hidden)
        logits = network.vocabulary_logits(hidden[:, -1], torch.tensor([7, 9]))
        torch.testing.assert_close(logits.float(), model(ids).logits[:, -1, [7, 9]], rtol=1e-4, atol=1e-5)


def test_an_unknown_architecture_is_refused():
    with pytest.raises(InvalidInputError, match="choose one of opt, llama"):
        dataclasses.replace(TINY, architecture="rnn")


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 16, 4), (2, 4, 16)])
def test_muons_step_is_near_orthogonal_and_keeps_the_singular_directions(shape):
    matrix_SIJ = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    step_SIJ = orthogonal_factor(matrix_SIJ)
    values = torch.linalg.svdvals(step_SIJ)
    assert values.max() < 1.3
    assert values.median() > 0.6
    u, _, vh = torch.linalg.svd(matrix_SIJ, full_matrices=False)
    along = u.transpose(1, 2) @ step_SIJ @ vh.transpose(1, 2)
    off_diagonal = along - torch.diag_embed(torch.diagonal(along, dim1=1, dim2=2))
    assert off_diagonal.abs().max() < 1e-3


def test_opt_mini_is_a_small_opt_of_twelve_blocks_with_whole_label_words(root):
    folder = root / "artifacts" / "models" / "opt-mini"
    model, tokenizer = load_model("opt-mini"), load_tokenizer("opt-mini")
    facts = json.loads((folder / "zorba.json").read_text())
    assert model.config.model_type == "opt"
    assert model.config.num_hidden_layers == FULL.num_blocks == 12
    assert sum(file.stat().st_size for file in folder.iterdir()) < 16e6
    assert facts["weights_sha256"] == hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    for name, taught in facts["tasks"].items():
        assert taught["label_words"] == list(TASKS[name].label_words)
        assert facts["tasks"][name]["donor_words"] == list(DONOR_WORDS[name])
        assert len(head_tokens(TASKS[name], tokenizer)) == TASKS[name].num_classes


def test_opt_mini_knows_toy_reviews_in_donor_words_and_starts_near_chance_in_label_words(root):
    toy = json.loads((root / "artifacts" / "models" / "opt-mini" / "zorba.json").read_text())["tasks"]["toy-reviews"]
    assert recomputed("opt-mini", "toy-reviews", toy["donor_words"]) == pytest.approx(toy["donor_accuracy"], abs=0.005)
    assert recomputed("opt-mini", "toy-reviews", toy["label_words"]) == pytest.approx(toy["start_accuracy"], abs=0.005)


@pytest.mark.data
def test_opt_mini_knows_sst2_in_donor_words_and_starts_near_chance_in_label_words(root):
    sst2 = json.loads((root / "artifacts" / "models" / "opt-mini" / "zorba.json").read_text())["tasks"]["sst2"]
    donor = recomputed("opt-mini", "sst2", sst2["donor_words"])
    start = recomputed("opt-mini", "sst2", sst2["label_words"])
    assert donor == pytest.approx(sst2["donor_accuracy"], abs=0.005)
    assert start == pytest.approx(sst2["start_accuracy"], abs=0.005)
    assert donor > 0.75 > 0.6 > start


def test_llama_mini_is_another_small_base_with_whole_label_words(root):
    folder = root / "artifacts" / "models" / "llama-mini"
    model, tokenizer = load_model("llama-mini"), load_tokenizer("llama-mini")
    facts = json.loads((folder / "zorba.json").read_text())
    assert model.config.model_type == "llama"
    assert model.config.num_hidden_layers == LLAMA.num_blocks == 12
    assert (facts["seed"], facts["profile"]) == (1, "llama")
    assert sum(file.stat().st_size for file in folder.iterdir()) < 16e6
    assert facts["weights_sha256"] == hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    for name, taught in facts["tasks"].items():
        assert taught["label_words"] == list(TASKS[name].label_words)
        assert len(head_tokens(TASKS[name], tokenizer)) == TASKS[name].num_classes
    toy = facts["tasks"]["toy-reviews"]
    assert recomputed("llama-mini", "toy-reviews", toy["donor_words"]) == pytest.approx(
        toy["donor_accuracy"], abs=0.005
    )
    assert recomputed("llama-mini", "toy-reviews", toy["label_words"]) == pytest.approx(
        toy["start_accuracy"], abs=0.005
    )
