"""Fine-tune a model with the allocation: model, rows, Start, and the runs in the background."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Any, Literal, NamedTuple

import streamlit as st

from app.parts import fleets, forms, jobs, pictures, runs, ui
from app.parts.session import begin, end
from app.scenario import Scenario
from zorba_core.allocation import Allocation
from zorba_core.data.baselines import of_baselines
from zorba_core.engine.parts import method_facts
from zorba_core.engine.settings import LARGE_CLIENTS, LARGE_ROUNDS
from zorba_core.errors import ZorbaError
from zorba_core.plots.training import curves_figure
from zorba_core.vram import GIB

EVERY_SECONDS = 2.0
BADGES: dict[str, tuple[Literal["blue", "green", "orange", "red"], str]] = {
    "starting": ("blue", ":material/hourglass_top:"),
    "running": ("green", ":material/play_circle:"),
    "stopping": ("orange", ":material/stop_circle:"),
    "finished": ("blue", ":material/check_circle:"),
    "stopped": ("orange", ":material/pause_circle:"),
    "refused": ("red", ":material/block:"),
    "failed": ("red", ":material/error:"),
}
_ERROR, _FOCUS, _ASKED, _EXPECTED = "train_error", "train_focus", "train_asked", "train_expected"


def page() -> None:
    scenario = begin("train")
    st.title("Train", anchor=False)
    st.markdown(
        "Fine-tune a language model in which each client trains the blocks of its column. Nothing leaves this machine."
    )
    left, right = st.columns([0.4, 0.6], gap="large")
    with right:
        form = _form()
    with left:
        allocation, question = _allocation(scenario, form)
    with right:
        st.header("3 · Start", anchor=False)
        if allocation is not None:
            _start(allocation, form._replace(wrong=form.wrong or question))
        else:
            st.session_state.pop(_ASKED, None)
            st.button("Start", type="primary", icon=":material/play_arrow:", key="no_start", disabled=True)
            st.caption("First an allocation is needed: see 1.")
    end(scenario)
    folder = runs.folder()
    alive = any(job.alive for job in jobs.list_jobs(folder))
    ui.fragment(_live, run_every=EVERY_SECONDS if alive else None)(folder, jobs.why_not_now(folder))


class Form(NamedTuple):
    """The values of the fields."""

    model: str
    options: dict[str, Any]  # of ``zorba train``
    clients: int | None  # None: a number that suits the model
    is_large: bool
    wrong: str  # why training cannot start yet


def _form() -> Form:
    st.header("2 · Model, rows, rounds", anchor=False)
    one, two = st.columns([0.62, 0.38])
    titles = forms.datasets()
    rows = one.selectbox(
        "Rows", [*titles, forms.OWN], format_func=lambda name: str(titles.get(name, name)), key="train_rows",
        persist_state="session", on_change=forms.suit_model,
    )  # fmt: skip
    model = two.selectbox(
        "Model", forms.model_names(), key="train_model", accept_new_options=True, persist_state="session",
        help="opt-mini (2 million parameters) comes with the checkout and was trained only on reviews, news and "
        "inference. `zorba get-model smollm2-135m` fetches a real one. Or type a folder or a hub name such as "
        "facebook/opt-125m.",
    )  # fmt: skip
    if not model:
        return Form("", {}, None, False, "Choose a model.")
    options, wrong = ({"dataset": rows}, "") if rows != forms.OWN else forms.own_rows(model)
    large, _ = runs.error_of(forms.is_large_model, model)  # an unknown model is reported with the allocation
    basics = st.columns(3)
    with st.expander("Advanced settings", icon=":material/tune:"):
        places = st.columns(4)
        values = {name: forms.setting(name, place=places[i % 4]) for i, name in enumerate(forms.advanced_names())}
    rounds = LARGE_ROUNDS if large else forms.ROUNDS
    given = forms.setting("rounds", place=basics[0], empty=str(rounds))
    values["rounds"] = rounds if given is None else given
    values["lr"] = forms.setting("lr", place=basics[1])
    clients = basics[2].number_input(
        "Clients", value=None, step=1, key="train_clients", persist_state="session",
        placeholder=str(LARGE_CLIENTS) if large else "the whole fleet",
        help="Number of clients that train: from the smallest VRAM of the fleet to the largest, in even steps. If the "
        "rows have a column of clients, it decides.",
    )  # fmt: skip
    given, unusable = forms.checked(values)
    if clients is not None and clients < 1:  # with a bound the widget would silently keep its former value
        clients, unusable = None, f"Clients is {clients}; it must be at least 1."
    return Form(model, {**options, **given}, forms.client_count(options) or clients, bool(large), wrong or unusable)


def _allocation(scenario: Scenario, form: Form) -> tuple[Allocation | None, str]:
    """Show and return the allocation for the model's number of blocks and the clients that train, and what the user
    has to decide before training."""
    model = form.model
    st.header("1 · Allocation", anchor=False)
    try:
        study, _, planned = fleets.planned(scenario)
        wrong = study.complaints(planned)
        blocks = forms.blocks_of(model) if model else planned.num_blocks
        usual = min(planned.num_clients, LARGE_CLIENTS if form.is_large else planned.num_clients)
        fitted = planned if wrong else fleets.for_training(planned, blocks, form.clients or usual)
    except ZorbaError as error:
        ui.problem(error)
        return None, ""
    if wrong:
        st.warning(" ".join(wrong), icon=":material/warning:")
        st.page_link("views/explore.py", label="Repair it", icon=":material/edit:")
        return None, ""
    st.markdown(
        f"{ui.count(fitted.num_clients, 'client')}, Λ **{ui.number(fitted.bias_lambda)}**; the least trained block has "
        f"{ui.count(fitted.min_popularity, 'client')}."
        + (f" Planned for {scenario.model}." if scenario.model != Path(model).name else "")
    )
    question = _other_allocation(scenario, planned, fitted, Path(model).name)
    ui.figure(
        pictures.plain_matrix(fitted), key="train_matrix", name="zorba-allocation",
        alt=f"Which of {fitted.num_blocks} blocks each of {fitted.num_clients} clients trains.",
    )  # fmt: skip
    st.page_link("views/explore.py", label="Choose another", icon=":material/show_chart:")
    return fitted, question


def _other_allocation(scenario: Scenario, planned: Allocation, fitted: Allocation, model: str) -> str:
    """Compare the allocation with the one on Explore, where it is another; with fewer clients ask whether to train
    it. Return the question that is open."""
    if fitted.num_blocks != planned.num_blocks:
        st.caption(
            f"Planned for {scenario.model} with {planned.num_blocks} blocks; {ui.plain(model)} has "
            f"{fitted.num_blocks}, so each client trains the same share. On Explore Λ is "
            f"{ui.number(planned.bias_lambda)}."
        )
    if fitted.num_clients == planned.num_clients:
        return ""
    st.warning(
        f"This is another allocation than that on Explore: {fitted.num_clients} of the fleet's {planned.num_clients} "
        f"clients, from small to large VRAM, with Λ **{ui.number(fitted.bias_lambda)}** in place of "
        f"**{ui.number(planned.bias_lambda)}**.",
        icon=":material/call_split:",
    )
    key = f"other_{planned.num_clients}_{fitted.num_clients}_{planned.bias_lambda:.6g}_{fitted.num_blocks}"
    agreed = st.checkbox(f"Train these {fitted.num_clients} clients", key=key, persist_state="session")
    return "" if agreed else "First decide whether to train the other allocation: see 1."


def _request(allocation: Allocation, form: Form) -> tuple[dict[str, Any], Any]:
    """The options of ``zorba train``, and the method's description."""
    facts = method_facts(form.options.get("method", "zorba"))
    return {**form.options, "model": form.model} | (
        {} if facts.allocates else {"clients": allocation.num_clients}
    ), facts


def _start(allocation: Allocation, form: Form) -> None:
    model, options, wrong = form.model, form.options, form.wrong
    request, facts = _request(allocation, form)
    rows = Path(options["data"]).stem if "data" in options else options.get("dataset", "")
    title = f"{rows} · {facts.title} · {Path(model).name} · {allocation.num_clients} clients"
    if st.session_state.pop(_ASKED, False) and not wrong:
        _begin(allocation if facts.allocates else None, request, title)
    not_now = jobs.why_not_now(runs.folder())
    if wrong:
        ui.problem(wrong)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            "Start", type="primary", icon=":material/play_arrow:", key="start", on_click=_ask,
            disabled=bool(wrong or not_now), help="Runs `zorba train` in the background; this page may be closed.",
        )  # fmt: skip
        if st.button(
            "What to expect", key="expect", disabled=bool(wrong),
            help="Evaluates the model before training and times one round; half a minute for a model like SmolLM2.",
        ):  # fmt: skip
            with st.spinner("Evaluating the model and timing a round …"):
                st.session_state[_EXPECTED] = (request, forms.expectation(model, options, allocation))
        st.caption(not_now or "A short check before the first round refuses settings that cannot learn.")
    if (expected := st.session_state.get(_EXPECTED)) and expected[0] == request:
        st.info(ui.plain(expected[1]), icon=":material/schedule:")
    if message := st.session_state.pop(_ERROR, None):
        ui.problem(message)
    with st.expander("The same as a command", icon=":material/terminal:"):
        file = {"allocation": "allocation.json"} if facts.allocates else {}
        st.code(shlex.join(jobs.command_of({**file, **request})), language="bash", wrap_lines=True)


def _ask() -> None:
    """Callback of Start. The next run of the page starts the job, since a field can change with the click."""
    st.session_state[_ASKED] = True


def _begin(allocation: Allocation | None, request: dict[str, Any], title: str) -> None:
    """Start the job. A second click fails while the first start is under way."""
    try:
        st.session_state[_FOCUS] = jobs.start_training(runs.folder(), allocation, request, title).id
    except ZorbaError as error:
        st.session_state[_ERROR] = str(error)


def _live(folder: Path, not_now: str) -> None:
    """The selected job and the list of all, drawn every two seconds while a job runs.

    Args:
        not_now: why Start is disabled on the page. If the reason changes, the page is drawn again.
    """
    known = jobs.list_jobs(folder)
    if not known:
        return
    states = {job.id: jobs.state_of(job) for job in known}
    if not_now != jobs.why_not_now(folder):
        st.rerun()
    job = next((job for job in known if job.id == st.session_state.get(_FOCUS)), known[0])
    st.divider()
    with st.container(border=True):
        _card(folder, job, states[job.id])
    if len(known) > 1:
        st.header("All jobs", anchor=False)
        for other in known[:12]:
            _line(other, states[other.id], is_shown=other is job)


def _card(folder: Path, job: jobs.Job, state: jobs.State) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.header(ui.plain(job.title), anchor=False, width="stretch")
        color, icon = BADGES[state.name]
        st.badge(state.name, color=color, icon=icon)
        if state.alive:
            label = "Stop at once" if state.name == "stopping" else "Stop"
            if st.button(
                label, icon=":material/stop_circle:", key=f"{label}_{job.id}", help="Finished rounds are kept."
            ):
                jobs.stop(job)
                st.rerun(scope="fragment")
        elif state.run is not None:
            if state.name != "finished" and st.button("Resume", icon=":material/play_arrow:", key=f"resume_{job.id}"):
                _resume(folder, job, state.run)
            st.page_link(
                "views/runs.py", label="Open in Runs", icon=":material/list_alt:", query_params={"run": state.run.name}
            )
    if state.reason and (state.name != "stopped" or state.run is None):
        ui.problem(state.reason)
    run, message = (None, "") if state.run is None else runs.error_of(runs.read_run, state.run)
    if run is not None:
        _progress(job, run)
        if state.name == "finished" and (scores := run.environment["data"].get("baselines")):
            st.markdown(f"{run.summary['final_accuracy']:.1%} after training; {of_baselines(scores)}.")
    elif state.alive:
        what = "Loading the model and the rows, then trial rounds for the learning rate unless it is given"
        memory = jobs.memory_of(job)
        held = "" if memory is None else f", {memory / GIB:.2f} GiB in memory"
        st.progress(0.0, f"{what} … {ui.duration(time.time() - job.started)}{held}")
    with st.expander("Output of the process", icon=":material/terminal:"):
        st.code(shlex.join(job.command), language="bash", wrap_lines=True)
        st.code("\n".join(jobs.log_lines(job)) or message or "(nothing yet)", language=None, wrap_lines=True)


def _progress(job: jobs.Job, run: runs.Run) -> None:
    metrics, rounds = run.metrics, int(run.config.get("rounds") or job.rounds)
    done = run.rounds_done
    evaluated, title = metrics.dropna(subset=["eval_accuracy"]), runs.metric_title(run)
    st.progress(min(1.0, done / max(rounds, 1)), f"Round {done} of {rounds}")
    seconds = float(metrics["seconds"].iloc[-1]) if len(metrics) else 0.0
    left = seconds / done * (rounds - done) if done else None
    memory = jobs.memory_of(job)
    tiles = (
        (f"{title} now", f"{evaluated['eval_accuracy'].iloc[-1]:.1%}" if len(evaluated) else "–"),
        ("Before training", f"{evaluated['eval_accuracy'].iloc[0]:.1%}" if len(evaluated) else "–"),
        ("Loss now", f"{evaluated['eval_loss'].iloc[-1]:.3f}" if len(evaluated) else "–"),
        ("Time in rounds", ui.duration(seconds) + (f", {ui.duration(left)} left" if left else "")),
        ("Memory of the process", "–" if memory is None else f"{memory / GIB:.2f} GiB"),
    )
    for (label, value), place in zip(tiles, st.columns(len(tiles)), strict=True):
        place.metric(label, value, border=True)
    left_side, right_side = st.columns(2, gap="medium")
    target = run.config.get("target")
    look = {"rounds": rounds if done > rounds / 10 else None, "palette": ui.palette(), "height": 240}
    with left_side:
        ui.figure(
            curves_figure(
                {"held-out rows": (evaluated["round"], evaluated["eval_accuracy"])}, title=title.lower(), share=True,
                targets=[target] if target else [], **look,
            ),
            key="live_accuracy", alt=f"{title} after {done} of {rounds} rounds.",
        )  # fmt: skip
    with right_side:
        ui.figure(
            curves_figure(
                {
                    "held-out rows": (evaluated["round"], evaluated["eval_loss"]),
                    "clients' batches": (metrics["round"], metrics["train_loss"]),
                },
                title="loss", **look,
            ),
            key="live_loss", alt=f"Loss after {done} of {rounds} rounds.",
        )  # fmt: skip


def _resume(folder: Path, job: jobs.Job, run: Path) -> None:
    try:
        st.session_state[_FOCUS] = jobs.start_resume(folder, run, job.rounds, job.title).id
    except ZorbaError as error:
        st.session_state[_ERROR] = str(error)
    st.rerun()


def _line(job: jobs.Job, state: jobs.State, is_shown: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        color, icon = BADGES[state.name]
        st.badge(state.name, color=color, icon=icon)
        st.markdown(ui.plain(job.title), width="stretch")
        st.caption(time.strftime("%d %b %H:%M", time.localtime(job.started)), width="content")
        if st.button("Show", key=f"show_{job.id}", type="tertiary", disabled=is_shown):
            st.session_state[_FOCUS] = job.id
            st.rerun(scope="fragment")
        if st.button("Forget", key=f"forget_{job.id}", type="tertiary", disabled=state.alive):
            jobs.forget(job)
            st.rerun(scope="fragment")


page()
