"""Paper: every claim of the ZorBA paper, what was found, and the command that repeats it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import streamlit as st

from app.screens.paper import groups, top
from app.screens.paper.claims import as_table, evidence_file, has, in_words, kind_of, kinds, short_unit
from app.screens.paper.verdicts import LOOKS, verdict_bar
from app.shared import components
from app.shared.components import Download, Number
from app.shared.escape import as_code
from app.shared.folders import ROOT, ledger_file, runs_folder, short
from app.shared.links import linked_many, linked_text
from zorba_core.errors import MissingDataError, ZorbaError
from zorba_core.study.ledger import Claim, Ledger, read_ledger

_DOTTED = re.compile(r"zorba_core(\.[A-Za-z_]\w*)+")
_PICTURES = (".png", ".jpg", ".jpeg")
_MOST_PICTURE_BYTES = 8_000_000
_COUNT, _AT_FIRST = "claims_shown", 40
_GIGA = re.compile(r"(\d) GB\b")
_SHORT = 24  # letters of a number with its unit


def page() -> None:
    st.title("Is the paper right?", anchor=False)
    ledger = _ledger()
    if ledger is None:
        return
    top.show(ledger.claims)
    _introduction(ledger)
    claims = _filtered(ledger.claims)
    if not claims:
        st.info("No claim passes these filters. Clear one of them.", icon=":material/filter_alt_off:")
        return
    shown = st.session_state.setdefault(_COUNT, _AT_FIRST)
    lines = groups.grouped(claims)
    for line in lines[:shown]:
        if len(line) > 1:
            groups.draw(line, _detail)
        else:
            _row(line[0])
    if len(lines) > shown:
        st.button(f"Show {min(_AT_FIRST, len(lines) - shown)} of {len(lines) - shown} more", on_click=_show_more)
    _files(claims)


def _show_more() -> None:
    st.session_state[_COUNT] += _AT_FIRST


def _ledger() -> Ledger | None:
    file = ledger_file()
    try:
        return _read(str(file), file.stat().st_mtime_ns if file.is_file() else 0)
    except MissingDataError:
        with st.container(border=True):
            st.markdown("## The ledger of claims has not been made yet")
            st.markdown(
                "It is one file, worked out from formulas, enumeration and the experiments' tables. In this checkout, "
                "with its environment active:"
            )
            st.code("zorba report", language="bash")
            st.caption(f"It then lies in {as_code(short(file))}, and this page shows it.")
    except ZorbaError as error:
        components.problem("The ledger cannot be read", f"{error}")
    except OSError as error:
        components.problem("The ledger cannot be read", f"{short(file)}: {error.strerror}. Allow reading it.")
    return None


@st.cache_resource(max_entries=4, show_spinner=False)
def _read(file: str, modified: int) -> Ledger:
    """The ledger, read again when the file has changed."""
    del modified  # part of the cache's key only
    return read_ledger(file)


def _introduction(ledger: Ledger) -> None:
    counts = ledger.count()
    contradicted = ledger.findings("contradicted")
    single = counts["contradicted"] == 1
    together = ""
    if len(contradicted) < counts["contradicted"]:
        together = (
            f": **{len(contradicted)} distinct findings**, since several rows can rest on one "
            f"({_largest(contradicted)})"
        )
    st.markdown(
        f"**{len(ledger.claims)} rows**, each a claim, cell or number of the ZorBA paper beside what was found here, "
        f"with the command that repeats it. **{counts['contradicted']}** of them {'is' if single else 'are'} "
        f"contradicted, each by a counter-example you can check{together}."
    )
    st.html(verdict_bar(counts, components.palette()))


def _largest(findings: Mapping[str, Sequence[Claim]]) -> str:
    finding, rows = max(findings.items(), key=lambda item: len(item[1]))
    return f"{len(rows)} rows: {components.plain(finding)}"


def _filtered(claims: Sequence[Claim]) -> list[Claim]:
    counts = Counter(claim.verdict for claim in claims)
    verdicts = linked_many(
        st.pills,
        "Verdict",
        [verdict for verdict in LOOKS if verdict in counts],
        [],
        selection_mode="multi",
        format_func=lambda verdict: f"{LOOKS[verdict].icon} {LOOKS[verdict].title} {counts[verdict]}",
        key="verdict",
        label_visibility="collapsed",
        wrap=True,
    )
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        kind = linked_many(st.pills, "About", kinds(claims), [], key="about", selection_mode="multi", wrap=True)
        text = linked_text("Find", key="claim_text", icon=":material/search:", placeholder="words")
    return [
        claim
        for claim in claims
        if (not verdicts or claim.verdict in verdicts) and (not kind or kind_of(claim) in kind) and has(claim, text)
    ]


def _row(claim: Claim) -> None:
    look = LOOKS[claim.verdict]
    box = st.expander(
        f":{look.badge}[{look.icon}] {_sentence(claim.claim)} :gray[· {components.plain(_in_short(claim))}]",
        key=f"claim_{claim.id}",
        on_change="rerun",  # what is inside is drawn once it is opened: a page of forty is as quick as one of four
    )
    if not box.open:
        return
    with box:
        _detail(claim)


def _detail(claim: Claim) -> None:
    """A claim in full."""
    look = LOOKS[claim.verdict]
    with st.container():
        st.badge(f"{look.title}: {look.meaning}", icon=look.icon, color=look.badge)
        _printed_and_ours(claim)
        if claim.unit and claim.unit != short_unit(claim.unit):
            st.caption(f"In {components.plain(claim.unit)}.")
        if claim.note:
            st.markdown(_sentence(claim.note))
        if claim.counter_example:
            st.markdown("**Counter-example**")
            st.markdown(_sentence(claim.counter_example))
        if claim.finding:
            st.caption(f"One finding with other rows: {components.plain(claim.finding)}.")
        st.markdown("**Measured with**")
        st.code(claim.how, language="bash", wrap_lines=True)
        st.markdown("**Evidence**")
        for item in claim.evidence:
            _evidence(item, claim.id)


def _sentence(text: str) -> str:
    """Text of the ledger as it is, begun with a capital."""
    text = _GIGA.sub(r"\1 GiB", text)  # the paper prints GB and counts GiB
    return components.plain(components.capitalised(text))


def _in_short(claim: Claim) -> str:
    """Where it is printed and, where both are short, what is printed and what was found."""
    printed, ours = in_words(claim.printed, claim.unit), in_words(claim.ours, claim.unit)
    both = f" · printed {printed}, ours {ours}" if max(len(printed), len(ours)) <= _SHORT else ""
    return claim.where + both


def _printed_and_ours(claim: Claim) -> None:
    printed, ours = in_words(claim.printed, claim.unit), in_words(claim.ours, claim.unit)
    if max(len(printed), len(ours)) <= _SHORT:
        components.numbers(
            [
                Number("Printed", components.plain(printed), "What the paper says."),
                Number("Ours", components.plain(ours), "What was found here.", _apart(claim)),
            ]
        )
        return
    left, right = st.columns(2)
    left.markdown(f"**Printed**  \n{components.plain(printed)}")
    right.markdown(f"**Ours**  \n{components.plain(ours)}")


def _apart(claim: Claim) -> str | None:
    """How far our number is from the printed one."""
    if not isinstance(claim.printed, int | float) or not isinstance(claim.ours, int | float) or not claim.printed:
        return None
    share = (claim.ours - claim.printed) / abs(claim.printed)
    return "equal" if share == 0 else f"{share:+.2%}" if abs(share) < 10 else f"{claim.ours / claim.printed:.3g} times"


def _evidence(item: str, claim_id: str) -> None:
    file = evidence_file(item)
    if file is None:
        if _DOTTED.fullmatch(item):
            st.code(f"python -m pydoc {item}", language="bash")
        else:
            st.markdown(f"- {as_code(item)}")
        return
    if file.is_dir() and (file / "config.json").is_file() and file.parent == runs_folder():
        st.page_link(
            "screens/runs/runs.py",
            label=components.plain(item),
            icon=":material/show_chart:",
            query_params={"runs": file.name},
        )
    elif (experiment := _experiment(file)) is not None:
        st.page_link(
            "screens/runs/runs.py",
            label=components.plain(item),
            icon=":material/show_chart:",
            query_params={"source": experiment},
        )
    elif file.suffix.lower() in _PICTURES and file.stat().st_size <= _MOST_PICTURE_BYTES:
        st.image(str(file), caption=components.plain(item))
    elif item.startswith("tests/") and file.suffix == ".py":
        st.code(f"python -m pytest {item}", language="bash")
    else:
        st.markdown(f"- {as_code(item)}")


def _experiment(file: Path) -> str | None:
    """``cases.standard`` for a file or folder of that experiment's tables."""
    try:
        name, profile = file.relative_to(ROOT / "artifacts" / "experiments").parts[:2]
    except ValueError:
        return None
    return f"{name}.{profile}" if (ROOT / "artifacts/experiments" / name / profile / "runs.parquet").is_file() else None


def _files(claims: Sequence[Claim]) -> None:
    components.downloads(
        [
            Download(
                "Claims (CSV)",
                "zorba-claims.csv",
                lambda: as_table(claims).to_csv(index=False).encode(),
                "The claims that pass the filters.",
            ),
            Download(
                "Ledger (JSON)",
                "zorba-ledger.json",
                lambda: ledger_file().read_bytes(),
                "All claims and what made them.",
            ),
        ],
        key="claims",
    )


page()
