"""Rows of a list that are no card, that say how many they are of, and that nvidia-smi prints."""

from __future__ import annotations

import io

import pytest

from tests.data.card_lists import cards, doubts
from zorba_core.data.inventory import read_inventory
from zorba_core.errors import InvalidInputError

SMI = """\
| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2     |
|   0  NVIDIA A100-SXM4-80GB On | 00000000:07:00.0 Off |                    0 |
| N/A   34C    P0    68W / 400W |      0MiB / 81920MiB |      0%      Default |
"""
SILENT = """\
|   1  NVIDIA GB10           On | 0000000F:01:00.0 Off |                  N/A |
| N/A   36C    P8    4W /  N/A  | Not Supported        |      0%      Default |
"""
MIG = "| MIG devices:  |\n|  0    1   0   0  |      5MiB / 20096MiB | 42      0 |  3   0    2    0    0 |\n"


@pytest.mark.parametrize(
    "word", ["Insgesamt", "Zwischensumme", "Total général", "合计", "Итого", "Total :", "**Total**", "Average", "Σ"]
)
@pytest.mark.parametrize("row", ["{},12,704", "x,{},704"])
def test_a_row_of_sums_is_none_in_any_language_and_cell(word, row):
    header = "gpu,count,memory GB" if row.startswith("{") else "lab,gpu,memory GB"
    body = "A100,8,80\n" if row.startswith("{") else "x,A100,80\n"
    assert [gib for *_, gib in cards(f"{header}\n{body}{row.format(word)}\n")] == [80]


@pytest.mark.parametrize("word", ["Total GPUs", "TOTAL (12)", "Subtotal Lab A", "Lab A total"])
def test_a_row_that_may_be_of_sums_is_pointed_out(word):
    assert f"the row of '{word}' is read as one of cards" in doubts(f"gpu,count,memory GB\nA100,8,80\n{word},12,704\n")


@pytest.mark.parametrize(
    "kind", ["4x RTX 3090", "4 x RTX 3090", "RTX 3090 x4", "RTX 3090 x 4", "4× RTX 3090", "4X RTX 3090"]
)
def test_a_kind_may_say_how_many_there_are(kind):
    assert cards(f"node,gpu,vram GB\nn1,{kind},24\nn2,L4,24\n") == [("L4", 1, 24), ("RTX 3090", 4, 24)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpu,vram GB\nRTX 3090 (x4),24\nL4,24\n", "'RTX 3090 (x4)' is read as the name of a card; its number is"),
        ("gpu,count,vram GB\n4x RTX 3090,2,24\n", "'4x RTX 3090' is read as the name of a card; its number is"),
        ("gpu,vram GB\nA100 40GB,80\n", "'A100 40GB' names 40 GB; its memory is read as 80 GiB"),
        ("Node,GPUs,GPU,VRAM\nnode[01-04],4,A100,80GB\n", "'node[01-04]' is read as one machine"),
        ("Host;Karte;VRAM\nPC01-PC20;RTX 3090;24 GB\n", "'PC01-PC20' is read as one machine"),
        ("gpu,memory GB,count\nT4,16,4\nL4,24,\n", "'count' has empty cells; each is read as one"),
        ("gpu,memory GB,share\nT4,16,0.5\nL4,24,\n", "'share' has empty cells; each is read as no share"),
        ("T4, 16 GB\n# T4, 16 GB\nL4, 24 GB", "'# T4, 16 GB' is a remark and not read"),
        ("gpu,memory GB\nT4,16\n// L4,24\n", "'// L4,24' is a remark and not read"),
        (SMI + SILENT, "nvidia-smi shows no memory of NVIDIA GB10; it is left out"),
        ("Tesla T4, 3 MiB, 15360 MiB\n", "'column 3' is read as the memory of each card, as the largest of 2 sizes"),
    ],
)  # fmt: skip
def test_what_a_row_leaves_open_is_pointed_out(text, words):
    assert words in doubts(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SMI + MIG, "nvidia-smi lists MIG devices"),
        ("| NVIDIA-SMI |\n" + SILENT, "nvidia-smi shows no memory of NVIDIA GB10; paste what this prints"),
        ("8, A100, 81920 MiB\n4, T4, 15360 MiB\n", "'8, A100, 81920 MiB' may be read in two ways; paste what"),
        ("A100, 8, 81920 MiB\nT4, 4, 15360 MiB\n", "may be read in two ways"),
        ('gpu,memory GB,note\nT4,16,"broken\nL4,24,ok\nA100,80,ok\n', "close each quotation mark, or leave it out"),
        ('gpu,memory GB,note\nT4,16,"\nL4,24,"\nA100,80,x\n', "goes over several lines; close each quotation mark"),
    ],
)  # fmt: skip
def test_what_may_hide_a_row_is_refused(text, words):
    with pytest.raises(InvalidInputError, match=words):
        cards(text)


def test_nvidia_smi_is_read_by_its_own_table_and_columns():
    assert cards("0, Tesla T4, 3 MiB, 15360 MiB\n1, Tesla T4, 0 MiB, 15360 MiB\n") == [("Tesla T4", 2, 15)]
    process = "|    0   N/A  N/A      1600      C   python 100MiB / 200MiB             233MiB |"
    assert cards(SMI + process) == [("NVIDIA A100-SXM4-80GB", 1, 80)]
    four = "count, name, memory.total [MiB]\n" + "4, A100, 40960 MiB\n" * 4
    assert cards(four) == [("A100", 4, 40)]
    listed = "GPU 0: A100 40GB (UUID: G-1)\n  MIG 3g.20gb Device 0: (UUID: M-1)\n  MIG 3g.20gb Device 1: (UUID: M-2)\n"
    assert cards(listed + "GPU 1: A100 40GB (UUID: G-2)\n") == [("A100 40GB", 1, 40), ("3g.20gb", 2, 20)]


def test_a_workbook_has_the_cards_of_its_first_visible_sheet_and_names_the_others():
    openpyxl = pytest.importorskip("openpyxl")
    workbook, content = openpyxl.Workbook(), io.BytesIO()
    sheets = [workbook.active, workbook.create_sheet("lab"), workbook.create_sheet("room")]
    sheets[0].sheet_state = "hidden"
    for sheet, count in zip(sheets, (1, 4, 8), strict=True):
        for row in (["GPU", "VRAM GB", "Count"], ["T4", 16, count]):
            sheet.append(row)
    sheets[1].cell(1, 9).value = " "
    workbook.save(content)
    inventory = read_inventory(content.getvalue(), "fleet.xlsx")
    assert cards(content.getvalue()) == [("T4", 4, 16)]
    assert "the sheet 'lab' is read, not 'room'" in inventory.doubts
    assert inventory.unread(inventory.columns) == []
