"""Lists that people write by hand: a line says how many cards there are and what each has, or it is refused."""

from __future__ import annotations

import contextlib
import time

import pytest

from tests.data.card_lists import cards
from zorba_core.data.inventory import cards_of, read_inventory, written
from zorba_core.errors import InvalidInputError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node1,RTX 3090,24 GB", [("node1,RTX 3090", 1, 24)]),
        ("n1,GTX 1080,8 GB", [("n1,GTX 1080", 1, 8)]),
        ("4 RTX 3090,24 GB", [("RTX 3090", 4, 24)]),
        ("4xT4 16GB, 2xA100 80GB", [("A100", 2, 80), ("T4", 4, 16)]),
        ("* 4 x A100, 80 GB\n• 2 x T4, 16 GB", [("A100", 4, 80), ("T4", 2, 16)]),
        ("1) 4 x A100, 80 GB\n2. 2 x T4, 16 GB", [("A100", 4, 80), ("T4", 2, 16)]),
        ("4X RTX 3090, 24 GB", [("RTX 3090", 4, 24)]),
        ("4х RTX 3090, 24 GB", [("RTX 3090", 4, 24)]),
        ("4 ✖ RTX 3090, 24 GB", [("RTX 3090", 4, 24)]),
        ("A100*4, 80 GB", [("A100", 4, 80)]),
        ("A100x8 80GB", [("A100", 8, 80)]),
        ("\u200b4\u2060 x RTX 3090, 24 GB\ufeff", [("RTX 3090", 4, 24)]),
        ("4 x RTX 3090, 24 GB each", [("RTX 3090", 4, 24)]),
        ("4 x RTX 3090, 24 GB per GPU", [("RTX 3090", 4, 24)]),
        ("4x NVIDIA T4 16 GB VRAM", [("NVIDIA T4", 4, 16)]),
        ("4×RTX 3090 (24 GB GDDR6X)", [("RTX 3090", 4, 24)]),
        ("4 x A100 [80 GB]", [("A100", 4, 80)]),
        ("RTX 3090, 24 GB GDDR6X\nRTX 4090, 24 GB GDDR6X", [("RTX 3090", 1, 24), ("RTX 4090", 1, 24)]),
        ("7900 xt, 20 GB", [("7900 xt", 1, 20)]),
        ("Tegra X2, 8 GB", [("Tegra X2", 1, 8)]),
        ("2 x MI300X, 192 GB", [("MI300X", 2, 192)]),
        ("2 x A100-SXM4-80GB, 80 GB", [("A100-SXM4-80GB", 2, 80)]),
        ("NVIDIA A100 80GB PCIe, 80 GB", [("NVIDIA A100 80GB PCIe", 1, 80)]),
        ("RTX 3090 - 24 GB\n3080 - 10 GB", [("RTX 3090", 1, 24), ("3080", 1, 10)]),
    ],
)
def test_a_line_is_read_as_a_person_reads_it(text, expected):
    assert cards(text) == expected


@pytest.mark.parametrize(
    "line",
    [
        "4,RTX 3090,24 GB", "RTX 3090,24 GB,RTX 4090,24 GB", "RTX 3090 24GB, RTX 4090 24GB",
        "RTX 3090 24GB + A100 80GB", "RTX 3090 24GB and A100 80GB", "T4 16GB x4, A100 80GB x2",
        "4 x T4 16GB / 2 x A100 80GB",
        "node1: 4 x A100, 80 GB", "node1: 4xA100, 80 GB", "RTX 3090 (x4), 24 GB", "RTX 3090 (4x), 24 GB",
        "RTX 3090: 4 x 24 GB", "2 x 4 x A100, 80 GB", "4-6 x A100, 80 GB", "ca. 4 x A100, 80 GB", "½ x A100, 80 GB",
        "4+ x A100, 80 GB", "1k x T4, 16 GB", "4 x A100 40 - 80 GB", "4 x A100 40/80 GB", "4 x A100, 40 GB or 80 GB",
        "4 x A100 40 or 80 GB", "4 x RTX 3090 = 96 GB", "4 x RTX 3090, total 96 GB", "4 x RTX 3090 24 GB (96 GB)",
        "1000 T4, 16 GB", "2 3090 24 GB", "RTX 3090 [4], 24 GB", "PC01-PC20: RTX 3060 12 GB", "two A100 80GB",
        "# 4 x T4, 16 GB", "node1,4,A100,80GB", "4 16GB", "// T4, 16 GB",
    ],
)  # fmt: skip
def test_a_line_with_a_further_number_of_cards_or_size_is_refused(line):
    with pytest.raises(
        InvalidInputError,
        match=r"(may be read in two ways|is not understood); write such lines as `4 x RTX 3090, 24 GB`",
    ):
        cards(line)


@pytest.mark.parametrize("line", ["Total: 96 GB", "RAM: 256 GB", "Disk 2 TB", "Insgesamt 96 GB"])
def test_a_line_of_something_else_names_no_card(line):
    with pytest.raises(InvalidInputError, match="names no card; leave it out, or write such lines"):
        cards(f"4 x RTX 3090, 24 GB\n{line}")


def test_what_is_written_out_reads_back_though_its_name_has_another_size():
    """Half of an A100 with 80 GB has 40 GiB to train in; the list that says so is read again, and points it out."""
    inventory = read_inventory("2 x NVIDIA A100 80GB PCIe, 80 GB")
    kinds = cards_of(inventory, inventory.columns, 0.5)
    again = read_inventory(written(kinds))
    assert cards_of(again, again.columns) == kinds
    assert "is read as 2 of 'NVIDIA A100 80GB PCIe' with 40 GiB" in " ".join(again.doubts)


@pytest.mark.parametrize(
    "line",
    ["A" + " ecc" * 120 + " 24 GB", "A, 24 GB" + " ecc" * 120, "1 " * 240, "A " + "1-" * 230 + " 24 GB", "x " * 240],
)
def test_a_written_line_costs_little_time_whatever_it_repeats(line):
    began = time.process_time()
    with contextlib.suppress(InvalidInputError):
        read_inventory(f"{line}\n" * 5_000)
    assert time.process_time() - began < 3
