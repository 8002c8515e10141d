"""What the words of a header, and the cells below it, say of a column."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zorba_core.data.inventory.numbers import PERCENT, is_written_number, unit_in

_GRAPHICS = (  # the memory of a card, before any other memory
    "memory.total", "memory total", "vram_gib", "vram", "gpu memory", "gpu mem", "graphics memory", "video memory",
    "grafikspeicher", "videospeicher", "mémoire vidéo", "framebuffer", "显存",
)  # fmt: skip
ROLES = {  # words of a header, longest match first
    "free": ("memory.free", "free", "available", "avail", "frei", "verfügbar", "libre", "disponible", "usable", "可用"),
    "memory": (
        *_GRAPHICS, "memory", "mem", "speicher", "mémoire", "memoria", "内存", "ram", "gib", "gb", "go", "mib", "mb",
    ),
    "each": (),  # by "per node" alone
    "count": (
        "count", "quantity", "qty", "number", "num", "units", "pieces", "pcs", "amount", "cards", "gpus", "how many",
        "anzahl", "stück", "stueck", "stk", "menge", "karten", "nombre", "quantité", "cantidad", "数量", "nodes",
        "machines", "servers", "hosts", "instances", "no.", "#",
    ),
    "kind": (
        "gpu name", "card", "kind", "gpu model", "model", "gpu", "karte", "grafikkarte", "carte graphique", "carte",
        "tarjeta", "bezeichnung", "device", "type", "型号", "显卡",
    ),
    "name": ("client", "host", "hostname", "node", "machine", "rechner", "name", "asset", "server", "id"),
    "speed": ("relative_speed", "relative speed", "speed", "tempo"),
    "share": ("share", "shares", "anteil", "fraction", "percent", "percentage", "part"),
}  # fmt: skip
NUMBERS = ("free", "memory", "each", "count", "speed", "share")
_EACH = re.compile(
    r"(?i)(?:(?<![a-z])(?:per|je|pro|par|por)|/)\s*(?:node|machine|host|server|box|system|chassis|workstation|vm|pc|instance|rechner|knoten"
    r"|maschine|nœud|nodo)"
)
_OTHER = re.compile(  # numbers of a card or of its machine that are none of these
    r"(?i)(?<!un)used|in use|taken|occupied|alloc|reserved|required|needed|shared|retired|remapped|usage|util|belegt"
    r"|genutzt|auslastung|utilis|(?<![a-z])temp(?!o)|power|leistung|watt|clock|takt|[mg]hz|tflop|tokens|\brank"
    r"|mem\w* speed"
    r"|price|preis|prix|cost|kosten|year|jahr|serial|slot|index|driver|bandwidth|network|\blink|/s(?:ec\w*)?\b|per sec"
    r"|bps\b|\b[kmgt]i?bits?\b|disk|storage|ssd|hdd|festplatte|speicherplatz|cache|bar1|uuid|pci|bus|modules?\b"
    r"|system.?(?:ram|mem|speicher)|(?:host|vm|model).?(?:ram|mem)|arbeitsspeicher|channels|stacks|\bfans?\b"
    r"|cpu|core|kerne\b|c(?:œ|oe)urs|\bsms?\b|processors?|transistor|(?:compute|rack|height) units?|steckpl|sockets?\b"
    r"|\bnics?\b|\bpsus?\b|\busers?\b|hours|\bdays|tage\b|since|defe[ck]t|broken|\b(?:max|min)\w* (?:gpu|unit|card)"
)
_IDENTITY = re.compile(
    r"(?i)(?:part|model|phone|employee|building|desk|room|cluster|port).?(?:number|no\b|nr)|asset|serial|s/n|inventory|inventar|order|ticket|room|rack|raum|\bid\b|_id\b"
)
MACHINES = re.compile(
    r"(?i)\b(nodes|machines|servers|hosts|instances|rechner|knoten|pcs|server|workstations|systems|vms|chassis|boxes)\b"
)
CARDS = re.compile(  # names of cards, to know their column by
    r"(?i)nvidia|geforce|\brtx|\bgtx|tesla|quadro|titan|jetson|radeon|instinct|\bmi\d{2,3}\b|\barc\b|gaudi|\btpu|gpu"
    r"|^[abhlpvt]\d{1,3}0?\b"
)
_CARD_WORD = re.compile(r"(?i)gpu|vram|vid[eé]o|grafik|graphi|accelerator|\bcards?\b|\bkarte|frame ?buffer|显")
_OF_ALL = re.compile(r"(?i)\btotal|gesamt|totale|\bsum(?:me)?\b|combined|\bnode")
_NO_SHARE = re.compile(
    r"(?i)busy|belegt|market|discount|rabatt|uptime|availability|total|gesamt|bestand|fleet|flotte|cluster"
)
_NUMBERED = re.compile(r"(?i)(?:^|[\s._])(?:#|nos?|nr|num|number|nummer|num[eé]ro|número|n°|№|pos)\.?$")
_SUM = re.compile(  # words of a row that adds up the others
    r"(?i)(?<!\w)(?:(?:grand|net) total|(?:sub-?|zwischen)?(?:total|totals|totale|totaal|sum|sums|summe|suma|somme)"
    r"|gesamt|insgesamt|gesamtsumme|total g[eé]n[eé]ral|average|mean|mittelwert|median|durchschnitt"
    r"|合计|总计|小计|итого|всего|toplam|σ)(?!\w)"
)


@dataclass(frozen=True)
class Traits:
    """What a column's header and cells say of it, before the meaning of its words."""

    numeric: bool  # most filled cells are a number, by itself or with a unit
    index: bool  # they are small whole numbers, as of the cards in a machine
    percent: bool
    each: bool
    other: bool  # a number of something that no role asks for
    unit: bool
    cards: bool  # most cells name a card
    identity: bool
    running: bool  # 1, 2, 3, ... in order below such a header as "No."
    no_share: bool

    @classmethod
    def of(cls, name: str, cells: Sequence[str]) -> Traits:
        filled = [cell.strip() for cell in cells[:200] if cell.strip()]

        def most(has: Callable[[str], object]) -> bool:
            return bool(filled) and sum(bool(has(cell)) for cell in filled) > 0.6 * len(filled)

        return cls(
            numeric=most(is_written_number),
            index=most(re.compile(r"\d{1,2}").fullmatch),
            percent=bool(PERCENT.search(name)) or most(re.compile(r".*\d\s*+%").fullmatch),
            each=each_of_machines(name),
            other=bool(_OTHER.search(name)),
            unit=unit_in(name) is not None,
            cards=most(CARDS.search),
            identity=bool(_IDENTITY.search(name)),
            running=bool(_NUMBERED.search(name)) and _in_order(cells),
            no_share=bool(_NO_SHARE.search(name)),
        )

    def may_be(self, role: str) -> bool:
        if role not in NUMBERS:
            number = self.numeric and (self.index or self.percent or self.other)
            return not self.each and (role == "name" or not number)
        if not self.numeric or self.other:
            return False
        if role == "share":
            return not (self.no_share or self.identity)
        if role in ("count", "each"):
            return not (self.unit or self.percent or self.identity or self.running) and self.each == (role == "each")
        return not self.percent

    def rank(self, role: str) -> int:
        """Before the words of headers: cells that name cards, then words rather than numbers."""
        return 0 if role in NUMBERS else 2 * (role == "kind" and self.cards) + (not self.numeric)


def score(role: str, name: str) -> int:
    """How well a header's words say that its column has a role; 0: not at all."""
    word = re.sub(r"[_\s]+", " ", name.lower())
    if role == "each":
        return int(each_of_machines(name) and about_cards(name))
    if role == "share" and PERCENT.search(word) and score("free", name):
        return 100  # "free %"
    if role == "count" and _NUMBERED.search(name):
        return 1  # after "Qty" and the like
    end = r"(?![a-z])" if role == "share" else ""
    matched = [key for key in ROLES[role] if re.search(rf"(?<![a-zäöü]){re.escape(key)}{end}", word)]
    best = max((len(key) + 100 * (key in _GRAPHICS) + 50 * (key == word) for key in matched), default=0)
    if role in ("free", "memory") and (best or (role == "memory" and re.search("speicher", word) and of_card(name))):
        return best + 300 * of_card(name) + 150 * (not of_all(name))
    return best


def of_card(name: str) -> bool:
    """Whether a header says that its memory is a card's rather than a machine's."""
    return _CARD_WORD.search(name) is not None or "memory.total" in name or "memory.free" in name


def of_all(name: str) -> bool:
    """Whether a header may say that its memory is of all cards of a row together."""
    return _EACH.search(name) is not None or (_OF_ALL.search(name) is not None and "memory.total" not in name)


def each_of_machines(name: str) -> bool:
    return _EACH.search(re.sub(r"[_\s]+", " ", name)) is not None


def about_cards(name: str) -> bool:
    """Whether a header with "per node" counts cards: ``RAM per node`` and ``Sockets per node`` do not."""
    before = _EACH.split(re.sub(r"[_\s]+", " ", name))[0]
    named = _CARD_WORD.search(before) or CARDS.search(before) or score("count", before)
    return not before.strip() or bool(named and not score("memory", before))


def sums(cells: Sequence[str]) -> bool:
    """Whether a row is one of sums: one of its cells says so and nothing else."""
    return any(_SUM.fullmatch(cell.strip(" *_:=")) is not None for cell in cells)


def may_be_sums(cells: Sequence[str]) -> str:
    """The cell by which a row may be one of sums, as ``Total GPUs`` or ``Lab A total``; empty: there is none."""
    return next(
        (cell for cell in cells if not sums(cells) and cell[:1] and not cell[:1].isdigit() and _SUM.search(cell)), ""
    )


def _in_order(cells: Sequence[str]) -> bool:
    numbers = [cell.strip().rstrip(".") for cell in cells if cell.strip()]
    starts = (list(map(str, range(first, first + len(numbers)))) for first in (0, 1))
    return len(numbers) > 1 and numbers in starts
