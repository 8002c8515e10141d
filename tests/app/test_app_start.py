"""The first page: cards as they are listed somewhere, one answer with sources, a rehearsal, and what deploys it."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.screens.start import data, deploy, model, rehearse
from app.screens.train.jobs import list_jobs, state_of
from app.screens.train.processes import stop
from app.shared import engine_costs
from tests.app.shown import shown_key
from zorba_core.data.inventory import cards_of, fleet_of_cards, read_inventory
from zorba_core.federation.start_files import start_files
from zorba_core.planning.engine_memory import Load
from zorba_core.runs.fleet_answer import answer

CARDS = "4 x RTX 3060, 12 GiB;6 x Laptop, 4 GiB;5 x Tiny, 0.67 GiB"
SMI = "name, memory.total [MiB], memory.free [MiB]\n" + "Tesla T4, 15360 MiB, 14336 MiB\n" * 3


@pytest.fixture
def app(root, tmp_path, monkeypatch):
    monkeypatch.chdir(root)
    monkeypatch.setenv("ZORBA_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("ZORBA_CACHE", str(tmp_path / "cache"))
    return AppTest.from_file(str(root / "app" / "main.py"), default_timeout=60)


def texts(app) -> str:
    return "\n".join(part.value for part in [*app.title, *app.markdown, *app.caption])


def metrics(app) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def planned(text=CARDS, name="opt-1.3b"):
    inventory = read_inventory(text)
    kinds = cards_of(inventory, inventory.columns)
    chosen = model._known(name)
    return (
        kinds,
        chosen,
        answer(fleet_of_cards(kinds), chosen.spec, chosen.shape, Load(8, 64, 10), engine_costs.calibration()),
    )


def test_the_address_without_a_name_is_the_first_page_and_an_older_link_the_trade_off(app):
    app.run()
    assert not app.exception
    assert app.title[0].value == "Can my cards train this model?"
    assert "cards can train OPT-125M" in texts(app)
    old = AppTest.from_file(app._script_path, default_timeout=60)
    old.query_params["clients"], old.query_params["vectors"] = "12", "40"
    old.run()
    assert old.title[0].value == "How much VRAM does good training need?"
    assert old.session_state["scenario"].num_clients == 12


def test_a_link_holds_cards_and_model_and_the_answer_says_who_takes_part(app):
    app.query_params["my_cards"], app.query_params["my_model"] = CARDS, "opt-1.3b"
    app.run()
    assert "## 10 of 15 cards can train OPT-1.3B" in texts(app)
    assert "4 hold OPT-1.3B in memory, 6 read it block by block, 5 are too small." in texts(app)
    assert {"Seconds a round", "Memory of a card", "Sent a round", "Loss, against every block"} <= set(metrics(app))
    remedy = next(button for button in app.button if ": 5 more" in button.label)
    remedy.click().run()
    assert "## 15 of 15 cards can train" in texts(app)
    assert {"my_batch", "my_length"} & set(app.query_params)


def test_a_paste_of_nvidia_smi_is_read_and_what_it_says_goes_into_the_address(app):
    app.run()
    app.text_area(key=shown_key(app, "my_cards")).set_value(SMI).run()
    assert "**3 cards** of 1 kind" in texts(app)
    link = app.query_params["my_cards"]
    assert "3 x Tesla T4, 14 GiB" in (link if isinstance(link, str) else link[0])
    app.text_area(key=shown_key(app, "my_cards")).set_value("gpu,mem gb\nT4,lots").run()
    assert not app.exception
    assert "cannot be read yet" in app.warning[0].value


def test_a_column_of_any_name_can_be_mapped(app):
    app.run()
    app.text_area(key=shown_key(app, "my_cards")).set_value("thing;size;pezzi\nA;24;2\nB;8;3\n").run()
    assert "**2 cards** of 2 kinds" in texts(app)
    box = next(box for box in app.selectbox if box.label == "How many")
    box.set_value("pezzi").run()
    assert "**5 cards** of 2 kinds" in texts(app)


def test_columns_that_are_not_used_are_named_and_cards_without_speeds_are_not_told_apart(app):
    app.run()
    table = "GPU;Units;GB;Free %;Rack\nL4;3;24;50;7\nT4;2;16;100;8\n"
    app.text_area(key=shown_key(app, "my_cards")).set_value(table).run()
    assert "**5 cards** of 2 kinds" in texts(app)
    assert "Not used: Rack." in texts(app).replace("\\", "")
    assert "no speeds given: as one CPU" in "".join(str(metric.delta) for metric in app.metric)
    app.text_area(key=shown_key(app, "my_cards")).set_value("3 x L4, 24 GB ~ 5\n2 x T4, 16 GB").run()
    assert "waits for T4 \\#1" in "".join(str(metric.delta) for metric in app.metric)


def test_the_kind_that_all_wait_for_can_be_left_out_and_taken_back(app):
    app.query_params["my_cards"] = "4 x quick, 12 GiB;2 x slow, 12 GiB ~ 0.1"
    app.run()
    seconds = metrics(app)["Seconds a round"]
    next(button for button in app.button if button.label.startswith("Leave out slow (2)")).click().run()
    assert metrics(app)["Seconds a round"] != seconds
    assert "## 4 of 4 cards" in texts(app)
    next(button for button in app.button if button.label.startswith("Take back slow")).click().run()
    assert metrics(app)["Seconds a round"] == seconds


def test_buttons_that_cannot_be_pressed_say_why(app):
    app.query_params["my_cards"], app.query_params["my_model"] = "2 x A wrist watch, 0.01 GiB", "opt-1.3b"
    app.run()
    assert "## 0 of 2 cards" in texts(app)
    button = app.button(key="start_rehearse")
    assert button.disabled
    assert button.help == "No card can take part: there is no plan to rehearse."
    assert button.help in [caption.value for caption in app.caption]
    (popover,) = (block.proto.popover for block in app.get("popover") if "Deploy" in block.proto.popover.label)
    assert popover.disabled
    assert popover.help == "No card can take part: there is nothing to deploy."


def test_one_click_starts_a_rehearsal_on_as_many_blocks_and_shows_it(app, tmp_path):
    app.query_params["my_cards"], app.query_params["my_model"] = CARDS, "opt-1.3b"
    app.run()
    try:
        app.button(key="start_rehearse").click().run()
        assert not app.exception
        jobs = list_jobs(tmp_path / "runs").jobs
        assert len(jobs) == 1
        assert jobs[0].command[jobs[0].command.index("--model") + 1] == "opt-mini-24"
        assert app.title[0].value.startswith("Train")
        assert "Rehearsal of OPT-1.3B" in texts(app)
    finally:
        for job in list_jobs(tmp_path / "runs").jobs:
            stop(tmp_path / "runs", job)
            stop(tmp_path / "runs", job)
    assert state_of(tmp_path / "runs", jobs[0])


def test_rows_of_ones_own_are_mapped_on_the_page_and_rehearsed(app, root, tmp_path):
    path = tmp_path / "letters.csv"
    lines = [f"letter {n} about {'rain' if n % 2 else 'sun'},{'wet' if n % 2 else 'dry'}" for n in range(60)]
    path.write_text("\n".join(["words,weather", *lines]) + "\n")
    app.query_params["my_cards"], app.query_params["my_model"] = "2 x small, 4 GiB", "opt-125m"
    app.query_params["my_data"], app.query_params["train_data"] = "own", str(path)
    app.run()
    assert "60 rows, 2 labels" not in texts(app)
    app.button(key="agree_train_data").click().run()
    assert not app.exception
    assert "60 rows, 2 labels" in texts(app)
    assert "{words} Weather:" in [area.value for area in app.text_area]
    try:
        app.button(key="start_rehearse").click().run()
        assert not app.exception
        (job,) = list_jobs(tmp_path / "runs").jobs
        assert job.command[job.command.index("--data") + 1] == str(path)
    finally:
        for job in list_jobs(tmp_path / "runs").jobs:
            stop(tmp_path / "runs", job)
            stop(tmp_path / "runs", job)
    other = AppTest.from_file(str(root / "app" / "main.py"), default_timeout=60)
    other.query_params["my_data"], other.query_params["train_data"] = "own", str(tmp_path / "no-such.csv")
    other.run()
    other.button(key="agree_train_data").click().run()
    assert not other.exception
    assert any("is no file on this machine" in problem.value for problem in [*other.error, *other.warning])


def test_a_rehearsal_of_many_cards_takes_a_sample_and_fits_its_time(tmp_path):
    _, chosen, answered = planned("400 x big, 24 GiB;200 x small, 4 GiB", "opt-350m")
    rows = data.task_of("toy-reviews", tmp_path, "opt-mini-24")
    rehearsed = rehearse.rehearsal(answered, chosen, rows, tmp_path)
    assert rehearsed.sampled
    assert rehearsed.allocation.A_MN.shape == (24, rehearse.MOST_CLIENTS)
    assert rehearse.LEAST_ROUNDS <= rehearsed.options["rounds"] <= rehearse.MOST_ROUNDS
    assert rehearsed.estimate.first_accuracy < rehearsed.estimate.total


def test_the_start_files_have_a_seat_for_each_card_that_takes_part(tmp_path):
    kinds, chosen, answered = planned(CARDS.replace("0.67", "0.5"))
    rows = data.task_of("toy-reviews", tmp_path, "opt-mini-24")
    plan = deploy.plan_of(kinds, answered, chosen, rows, "fl.example.org", 50)
    assert [(kind.kind, len(kind.seats), kind.memory_limit) for kind in plan.kinds] == [
        ("RTX 3060", 4, None),
        ("Laptop", 6, "4.00GiB"),
    ]
    with zipfile.ZipFile(io.BytesIO(start_files(plan))) as packed:
        names = {Path(name).parts[1] for name in packed.namelist()}
    assert names == {"README.md", "plan.json", "server", "clients"}


def test_a_models_config_is_enough_and_one_that_is_none_is_refused(root):
    config = (root / "artifacts/models/opt-mini/config.json").read_bytes()
    assert model._of_config("config.json", config).shape.num_blocks == 12
    for broken in (b"[1]", b"{", b'{"model_type": "cat"}'):
        with pytest.raises(Exception, match=r"config|model"):
            model._of_config("config.json", broken)
