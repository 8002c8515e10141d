"""Numbers in lists of cards: thousands and decimals of several countries, units, shares, and what may be read twice."""

from __future__ import annotations

import random

import pytest

from tests.data.card_lists import cards, doubts
from zorba_core.data.inventory import read_cards, read_inventory
from zorba_core.data.inventory.numbers import Marks, gib_of, whole
from zorba_core.errors import InvalidInputError


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("25", 25), ("2.5e1", 25), ("1.e2", 100), ("4E1 GB", 40), ("1,234.5", 1234.5), ("1.234,5", 1234.5),
        ("1 234,5", 1234.5), ("16\u202f384 MiB", 16), ("16'384 MiB", 16), (",5", 0.5), (".5 GiB", 0.5), ("24.", 24),
        ("0,125", 0.125), ("0.125", 0.125), ("8,589,934,592 bytes", 8), ("8.589.934.592 bytes", 8),
        ("17179869184 B", 16), ("16Gi", 16), ("2048Mi", 2), ("24 GB GDDR6X", 24), ("80GB HBM2e (ECC)", 80),
        ("12 Go", 12), ("16 GB per card", 16),
    ],
)  # fmt: skip
def test_a_size_is_read_as_it_is_written(cell, value):
    assert gib_of(cell, "GiB", "row 1: memory", Marks()) == value


@pytest.mark.parametrize(
    "cell",
    ["1,2,3", "12.34.56", "1,23,456", "1.234,567,8", "16 38 MiB", "16 384 5", "24,", "2 x 16 GB", "16-24 GB",
     "16/24 GB", "16 Gbit", "16 GB per node", "~16 GB", "24 GB (2 of 4)", "12 %", "GB", "", "e5", "- 4"],
)  # fmt: skip
def test_what_is_no_size_is_refused(cell):
    with pytest.raises(InvalidInputError, match=r"row 1: memory is .*; it must be a size, such as 24 or 8.5 GiB"):
        gib_of(cell, "GiB", "row 1: memory", Marks())


@pytest.mark.parametrize("cell", ["4", "4.0", "4x", "x4", "4 ×", "4 cards", "4 GPUs", "4 Stück", "4 pcs.", "4 Nodes"])
def test_a_number_of_cards_may_have_a_word_for_them(cell):
    assert whole(cell, "row 1: count", Marks()) == 4


@pytest.mark.parametrize("cell", ["4 %", "4 GB", "4-8", "1/2", "4 or 5", "2 E5-2680", "four", "1,2,3"])
def test_what_is_no_number_of_cards_is_refused(cell):
    with pytest.raises(InvalidInputError, match=r"row 1: count is .*; it must be a number of cards, such as 4"):
        whole(cell, "row 1: count", Marks())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu;memory MB;count\nT4;16,384;1,000\n", [("T4", 1000, 16)]),
        ("gpu;memory GB;count\nT4;16,5;1.000\n", [("T4", 1000, 16.5)]),  # 16,5 says what a point is
        ("gpu;memory GB;count\nT4;16.5;1,000\n", [("T4", 1000, 16.5)]),
        ("gpu;memory GB;count\nT4;16;1 000\nL4;24;1'000\n", [("L4", 1000, 24), ("T4", 1000, 16)]),
        ("gpu;memory GB\nT4;8.125\nL4;24,5\n", "row 1: memory GB is '8.125', which may be of thousands or a decimal"),
        ("gpu;memory GB\nT4;8.125\nL4;24.5\n", [("L4", 1, 24.5), ("T4", 1, 8.125)]),
        ("gpu;memory GB\nT4;8,125\nL4;24,5\n", [("L4", 1, 24.5), ("T4", 1, 8.125)]),
        ("gpu;memory GB\nT4;8,125\nL4;24\n", r"memory GB is '8,125', .* a decimal; write 8125 or 8.1250"),
        ("gpu;memory MB\nT4;512.000\nL4;1024.5\n", [("L4", 1, 1024.5 / 1024), ("T4", 1, 0.5)]),
        ("gpu;memory MB\nT4;15.360\n", r"memory MB is '15.360', .* a decimal; write 15360 or 15.3600"),
        ("gpu;memory MB;share\nT4;15.360;0,5\n", [("T4", 1, 7.5)]),
        ("gpu;memory MB;share\nT4;15,360;0,5\n", "memory MB is '15,360', which may be"),
        ("gpu;memory GB;count\nT4;16,5;1,000\n", r"count is '1,000', .* a decimal; write 1000 or 1$"),
        ("gpu;memory GB;count\nT4;16;1.000\n", "count is '1.000', which may be"),
        ("gpu;memory GB;speed\nT4;16;1,250\n", r"speed is '1,250', .* a decimal; write 1250 or 1.2500"),
        ("gpu;memory GB;speed\nT4;16;1.250\n", [("T4", 1, 16)]),
        ("gpu;memory GB;share\nT4;16;12,500\n", r"share is '12,500', which may be"),
    ],
)  # fmt: skip
def test_thousands_and_decimals_are_told_apart_by_the_table_or_refused(text, expected):
    if isinstance(expected, str):
        with pytest.raises(InvalidInputError, match=expected):
            cards(text)
    else:
        assert cards(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu;memory MiB;free GB\nT4;16384;8\n", [("T4", 1, 8)]),
        ("gpu;memory GiB;free MiB\nT4;16;8192\n", [("T4", 1, 8)]),
        ("gpu;memory GiB\nT4;16\nA100;40960 MiB\n", [("A100", 1, 40), ("T4", 1, 16)]),
        ("gpu;memory;free\nT4;16 GiB;8192 MiB\n", [("T4", 1, 8)]),
        ("gpu;memory GiB;free\nT4;16;8192\n", "row 1: free is 8192 GiB, more than memory GiB, 16 GiB; write the unit"),
        ("gpu;memory\nT4;16384 MiB\nA100;40\n", "row 2: memory is '40' beside '16384 MiB' in another row"),
        ("gpu;memory\nT4;16\nA100;40960 MiB\n", "row 1: memory is '16' beside '40960 MiB' in another row"),
        ("gpu;memory GB;free\nT4;16;8\nT4;16;8192 MiB\n", "row 1: free is '8' beside '8192 MiB' in another row"),
        ("gpu;memory Gbit\nT4;16\n", "no column of memory is chosen"),
    ],
)  # fmt: skip
def test_a_unit_is_of_its_own_column_or_cell(text, expected):
    if isinstance(expected, str):
        with pytest.raises(InvalidInputError, match=expected):
            cards(text)
    else:
        assert cards(text) == expected


def test_a_column_of_free_memory_that_names_no_unit_is_pointed_out():
    assert "'free' names no unit; it is read in MiB" in doubts("gpu;memory MiB;free\nT4;16384;8\n")
    assert "'free'" not in doubts("gpu;memory MiB;free\nT4;16384;8 GB\n")
    assert "free" not in doubts("gpu;memory MiB;free MiB\nT4;16384;8192\n")


@pytest.mark.parametrize("other", ["0.5", "1", "0,5", ".5"])
def test_a_fraction_beside_percents_is_not_taken_for_half_a_percent(other):
    with pytest.raises(InvalidInputError, match=f"share is '{other}' beside others in %; write all of them alike"):
        cards(f"card;memory;share\nA;40GB;50%\nB;80GB;{other}\n")
    with pytest.raises(InvalidInputError, match=f"share is '{other}' beside others above 1; write all of them alike"):
        cards(f"card;memory;share\nA;40GB;50\nB;80GB;{other}\n")
    for clear in ("50", "50 %", "0", ""):
        assert cards(f"card;memory;share\nA;40GB;50%\nB;80GB;{clear}\n")[-1][0] == "A"


def test_fractions_in_a_column_of_percent_are_not_taken_for_less_than_one():
    with pytest.raises(InvalidInputError, match=r"share % is '0.8' in a column of percent; write 80 for 80 %"):
        cards("gpu;memory GB;share %\nT4;16;0.8\nL4;24;0.5\n")
    assert cards("gpu;memory GB;share %\nT4;16;0.8%\nL4;24;50%\n") == [("L4", 1, 12), ("T4", 1, 0.128)]


def test_a_share_has_no_size():
    with pytest.raises(InvalidInputError, match=r"share is '8 GB'; it must be a share, such as 0.8 or 80 %"):
        cards("gpu;memory GB;share\nT4;16;8 GB\n")


@pytest.mark.parametrize(
    ("column", "cell"), [("count", "2-4"), ("count", "1/2"), ("count", "all"), ("count", "12%"), ("speed", "50%"),
                         ("count", "1,2,3"), ("share", "half"), ("cards per node", "some"), ("free", "most")],
)  # fmt: skip
def test_a_column_that_asks_to_be_read_and_cannot_is_pointed_out(column, cell):
    assert f"'{column}' is not read: '{cell}' is not understood" in doubts(f"gpu;memory GB;{column}\nT4;16;{cell}\n")


@pytest.mark.parametrize("text", ["client,vram_gib\na,24,5\n", "gpu,memory\nA100,81,920 MiB\n"])
def test_a_comma_in_a_number_is_no_further_column(text):
    with pytest.raises(InvalidInputError, match=r"has 3 cells and the first has 2; write a number without commas"):
        read_inventory(text)


def test_a_row_of_sums_is_no_card():
    text = "gpu,count,memory GB\nA100,8,80\nT4,4,16\n{},12,704\n"
    for word in ("Total", "Sum:", "Summe", "Grand total"):
        assert cards(text.format(word)) == [("A100", 8, 80), ("T4", 4, 16)]
    assert cards(text.format("Total-1"))[0] == ("Total-1", 12, 704)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 x A100, 81,920 MiB", [("A100", 2, 80)]),
        ("A100 81,920 MiB", [("A100", 1, 80)]),
        ("A100,81,920 MiB\nT4,15,360 MiB", [("A100", 1, 80), ("T4", 1, 15)]),
        ("Tesla T4,15360 MiB", [("Tesla T4", 1, 15)]),
        ("RTX 3090,24 GB\nRTX 3080,10 GB", [("RTX 3090", 1, 24), ("RTX 3080", 1, 10)]),
        ("4 x RTX 3090,24 GB", [("RTX 3090", 4, 24)]),
        ("4 x T4 16,5 GB", [("T4", 4, 16.5)]),
        ("H 200, 141 GB", [("H 200", 1, 141)]),
        ("4 x T4 16GB, 2 x A100 80GB", [("A100", 2, 80), ("T4", 4, 16)]),
        ("T4 x 4, 16GB", [("T4", 4, 16)]),
        ("RTX 3060 12GBx4", [("RTX 3060", 4, 12)]),
        ("GTX 1080, 8 GB\nRX 580 8 GB", [("GTX 1080", 1, 8), ("RX 580", 1, 8)]),
        ("4*T4 (16GB)", [("T4", 4, 16)]),
        ("T4 - 16 GB", [("T4", 1, 16)]),
        ("4 x MI300X 0.19 TB", [("MI300X", 4, 0.19 * 1024)]),
        ("4 x A100, 81.920 MB", "memory is '81.920 MiB', which may be of thousands or a decimal; write 81920 or"),
        ("4 x A100, 8,125 GB", "memory is '8,125 GiB', which may be"),
        ("2 x T4, 16 GB ~ 1,250", "speed is '1,250', which may be"),
        ("1 000 x T4, 16 GB", "'1 000 x T4, 16 GB' is not understood; write such lines as"),
        ("1,000 x T4, 16 GB", "'1,000 x T4, 16 GB' is not understood"),
        ("1 000 A100, 80 GB", "'1 000 A100, 80 GB' may be read in two ways; write such lines as"),
        ("A 30,24 GB", "may be read in two ways"),
        ("RTX 980,512 MiB", "may be read in two ways"),
        ("2 x T4, 16 384 MiB", "may be read in two ways"),
        ("H 200 141 GB", "may be read in two ways"),
        ("4 x T4 x 2, 16 GB", "may be read in two ways"),
        ("A100, 4, 80 GB", "may be read in two ways"),
        ("A100,4,80 GB", "may be read in two ways"),
        ("RTX 3090,4,24 GB", "may be read in two ways"),
        ("T4,16,5 GB", "may be read in two ways"),
        ("4 x RTX 3090\n2 x T4, 16 GB", "'4 x RTX 3090' is not understood"),
        ("4 x A100, 40960", "is not understood"),
    ],
)  # fmt: skip
def test_a_written_line_has_the_cards_that_it_says_or_is_refused(text, expected):
    if isinstance(expected, str):
        with pytest.raises(InvalidInputError, match=expected):
            cards(text)
    else:
        assert cards(text) == expected


def test_what_a_written_line_leaves_open_is_pointed_out():
    assert "'80' names no unit; it is read in GiB" in doubts("4 x A100, 80")
    assert "'RTX 3090,24 GB' is read as RTX 3090 with 24 GB" in doubts("RTX 3090,24 GB")
    assert "'A100,81,920 MiB' is read as A100 with 81,920 MiB" in doubts("A100,81,920 MiB")
    assert doubts("4 x A100, 80 GB") == ""


def written_as(value, decimals, style, rng):
    """A number as a country writes it, with or without thousands."""
    text = f"{value:,.{decimals}f}" if rng.random() < 0.5 else f"{value:.{decimals}f}"
    if style == "space":
        return text.replace(",", "\u202f").replace(".", ",")
    return text if style == "point" else text.translate(str.maketrans(",.", ".,"))


@pytest.mark.parametrize("style", ["point", "comma", "space"])
def test_any_table_of_a_country_is_read_as_it_is_written_or_refused(style):
    """Beside the numbers that were written: no table may give others without a word."""
    rng = random.Random(2029)
    read, refused = 0, []
    for _ in range(1500):
        unit, scale = rng.choice([("GiB", 1), ("MiB", 1024), ("bytes", 2**30)])
        rows, truth = [], []
        with_speed, in_header = rng.random() < 0.5, rng.random() < 0.7
        for index in range(rng.randint(1, 4)):
            gib, count, speed = rng.choice([8, 16, 24, 80, 8.125, 23.5, 1.75]), rng.choice([1, 4, 12, 1000, 2500]), 0.25
            decimals = rng.choice([0, 1, 3]) if scale == 1 else 0
            size = written_as(round(gib, decimals) * scale, decimals, style, rng) + ("" if in_header else f" {unit}")
            cells = [f"card{index}", size, written_as(count, 0, style, rng)]
            rows.append(cells + [written_as(speed, rng.choice([2, 3]), style, rng)] * with_speed)
            truth.append((f"card{index}", count, round(gib, decimals), speed if with_speed else 1.0))
        header = ["gpu", f"memory {unit}" if in_header else "memory", "count"] + ["speed"] * with_speed
        text = "\n".join("\t".join(row) for row in [header, *rows])
        try:
            inventory = read_inventory(text)
            kinds = read_cards(inventory, inventory.columns)[0]
        except InvalidInputError as error:
            refused.append(str(error))
            continue
        read += 1
        assert sorted((k.kind, k.count, round(k.gib, 6), k.speed) for k in kinds) == sorted(truth), text
    assert all("which may be of thousands or a decimal" in error for error in refused)
    assert read > {"point": 1200, "comma": 800, "space": 1000}[style]
