"""Lists of cards as their owners have them: pastes of nvidia-smi, spreadsheets with any column names, written lines."""

from __future__ import annotations

import io
import time

import pytest

from zorba_core.data.fleet_tables import read_fleet_csv
from zorba_core.data.inventory import Columns, cards_of, fleet_of_cards, read_cards, read_inventory, written
from zorba_core.errors import InvalidInputError
from zorba_core.planning.memory import GIB

SMI = """\
| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2     |
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
|===============================+======================+======================|
|   0  NVIDIA A100-SXM4-80GB On | 00000000:07:00.0 Off |                    0 |
| N/A   34C    P0    68W / 400W |   1024MiB / 81920MiB |      0%      Default |
|   1  NVIDIA GeForce RTX 3090            Off | 00000000:0A:00.0 Off |     0 |
| N/A   34C    P0    68W / 400W |      0MiB / 24576MiB |      0%      Default |
"""
QUERY = "name, memory.total [MiB], memory.free [MiB]\nTesla T4, 15360 MiB, 14336 MiB\nTesla T4, 15360 MiB, 14336 MiB\n"
GERMAN = "Rechner;Grafikkarte;Speicher (GB);Anzahl\nlab-1;RTX 3090;24,0;4\nlab-2;GTX 1650;3,5;12\nSumme;;;16\n"
TITLED = 'Inventory 2026\n\nAsset ID,Device,Qty,Memory\n1,RTX 4090,3,"24,564 MiB"\n2,RTX 4060,5,"8,188 MiB"\n'
MARKDOWN = "| Node | Card | Mem |\n|---|---|---|\n| a | V100 | 16GB |\n| b | V100 | 32GB |\n"


def cards(text, share=1.0):
    inventory = read_inventory(text)
    return [(card.kind, card.count, round(card.gib, 3)) for card in cards_of(inventory, inventory.columns, share)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SMI, [("NVIDIA A100-SXM4-80GB", 1, 79.0), ("NVIDIA GeForce RTX 3090", 1, 24.0)]),
        (QUERY, [("Tesla T4", 2, 14.0)]),
        ("Tesla T4, 15360 MiB\nTesla T4, 15360 MiB\n", [("Tesla T4", 2, 15.0)]),
        ("GPU 0: A100-SXM4-40GB (UUID: GPU-1)\nGPU 1: A100-SXM4-40GB (UUID: GPU-2)", [("A100-SXM4-40GB", 2, 40.0)]),
        (GERMAN, [("RTX 3090", 4, 24.0), ("GTX 1650", 12, 3.5)]),
        (TITLED, [("RTX 4090", 3, 23.988), ("RTX 4060", 5, 7.996)]),
        (MARKDOWN, [("V100 (32 GiB)", 1, 32.0), ("V100 (16 GiB)", 1, 16.0)]),
        ("host\tgpu\tVRAM MB\nA\tT4\t15360\nB\tT4\t15360", [("T4", 2, 15.0)]),
        ("client,vram_gib\nbox,24\nlaptop,8\n", [("24 GiB card", 1, 24.0), ("8 GiB card", 1, 8.0)]),
        ("machine,fb bytes\nA,25769803776", [("24 GiB card", 1, 24.0)]),
        ("4 x RTX 3090, 24 GB\n2× Jetson Orin 8 GB ~ 0.5", [("RTX 3090", 4, 24.0), ("Jetson Orin", 2, 8.0)]),
    ],
)
def test_a_list_as_people_have_it_becomes_kinds_of_card(text, expected):
    assert cards(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [  # the words that lists of other people have; a wrong guess would plan another fleet without a word
        ("GPU-Modell;Grafikspeicher (GB);Anzahl;frei %\nL4;22,5;30;80\n", [("L4", 30, 18.0)]),
        ("gpu,gb,Anteil (%)\nA100,40,50\nT4,16,1\n", [("A100", 1, 20.0), ("T4", 1, 0.16)]),
        ("gpu,gb,share\nA100,40,0.5\nT4,16,1\n", [("A100", 1, 20.0), ("T4", 1, 16.0)]),
        ("host,gpu,Mem used (GiB),Mem free (GiB)\na,T4,3,12\n", [("T4", 1, 12.0)]),
        ("GPU model,Units,Memory [GiB]\nL4,3,24\nT4,2,16\n", [("L4", 3, 24.0), ("T4", 2, 16.0)]),
        ("Name,Memory size,Cards\nA10,24 GB,6\nP100,16 GB,9\n", [("A10", 6, 24.0), ("P100", 9, 16.0)]),
        ("GPU,#,GB\nL4,3,24\n", [("L4", 3, 24.0)]),
        ("Node type,GPU,GPUs per node,Nodes,VRAM per GPU (GB)\nx,V100,8,4,32\n", [("V100", 32, 32.0)]),
        ("node,card,VRAM,GPU-Util %,Power W,CPU RAM GB\na,T4,16,55,70,256\n", [("T4", 1, 16.0)]),
        ("gpu,Bandwidth GB/s,Storage GB,memory\nL4,300,2000,24\n", [("L4", 1, 24.0)]),
        ("Bezeichnung;Menge;RAM\nRTX A6000;4;48 GB\n", [("RTX A6000", 4, 48.0)]),
        ("Carte graphique;Mémoire (Go);Quantité\nRTX 3060;12;7\n", [("RTX 3060", 7, 12.0)]),
        ("型号,显存GB,数量\nRTX 4090,24,12\n", [("RTX 4090", 12, 24.0)]),
        ("Asset No.,GPU,Memory\n1001,T4,16GB\n1002,T4,16GB\n", [("T4", 2, 16.0)]),
        ("Instance,GPUs,VRAM (GiB),Instances\ng5,1,24,10\np3,4,16,2\n", [("g5", 10, 24.0), ("p3", 8, 16.0)]),
        ("name,total_memory\nA100,42949672960\n", [("A100", 1, 40.0)]),
        ("RTX 3090;24 GB\nRTX 3080;10 GB\n", [("RTX 3090", 1, 24.0), ("RTX 3080", 1, 10.0)]),
        ("GPU,name,memory\n0,T4,16\n1,T4,16\n", [("T4", 2, 16.0)]),
    ],
)
def test_columns_are_known_by_the_words_of_many_lists(text, expected):
    assert cards(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4 A100 80GB\n1080 Ti 11 GB", [("A100", 4, 80.0), ("1080 Ti", 1, 11.0)]),
        ("RTX 3060 12GB x4\nT4 16 GB", [("T4", 1, 16.0), ("RTX 3060", 4, 12.0)]),
        ("4x3090 24GB\n3090 24 GB", [("3090", 5, 24.0)]),
        ("Karte;Speicher\nL4;24 GB\nT4;16 GB", [("L4", 1, 24.0), ("T4", 1, 16.0)]),
    ],
)
def test_written_lines_may_name_the_number_first_or_last(text, expected):
    assert cards(text) == expected
    assert any("taken as the number" in doubt for doubt in read_inventory(text).doubts) == text.startswith("4 A")


@pytest.mark.parametrize("line", ["-4 x A100, 80 GB", "1e9 x A100, 80 GB", "1,5 GiB", "2 x foo, 12 GiB ~ 1e30", "A100"])
def test_a_line_that_is_not_understood_says_how_to_write_it(line):
    with pytest.raises(InvalidInputError, match=r"is not understood; write such lines as `4 x RTX 3090, 24 GB`"):
        read_inventory(line)


def test_cards_with_nothing_free_are_left_out_and_counted():
    inventory = read_inventory("name,memory.total [MiB],memory.free [MiB]\nT4,15360,0\nT4,15360,14336\nT4,15360,0\n")
    kinds, busy = read_cards(inventory, inventory.columns)
    assert [(card.count, card.gib) for card in kinds] == [(1, 14.0)]
    assert busy == 2
    none = read_inventory("gpu,gb,free %\nL4,24,0\n")
    with pytest.raises(InvalidInputError, match="none of the 1 cards has memory free"):
        cards_of(none, none.columns)
    assert read_cards(read_inventory(QUERY), read_inventory(QUERY).columns)[1] == 0


def test_what_is_not_read_and_what_may_be_of_all_cards_is_said():
    inventory = read_inventory("GPU Type,Number of GPUs,Total memory (GB),tflops\nA100,8,640,19.5\nT4,4,64,8.1\n")
    assert inventory.unread(inventory.columns) == ["tflops"]
    assert any("'Total memory (GB)' is read as the memory of one card" in doubt for doubt in inventory.doubts)
    assert not any("one card" in doubt for doubt in read_inventory(QUERY).doubts)


def test_an_excel_export_counts_and_a_share_of_each_card_is_left_to_others():
    openpyxl = pytest.importorskip("openpyxl")
    workbook, content = openpyxl.Workbook(), io.BytesIO()
    for row in (["GPU model", "Units", "Memory [GiB]"], ["L4", 3, 24], ["T4", 2, 16.0], [None, None, None]):
        workbook.active.append(row)
    workbook.save(content)
    inventory = read_inventory(content.getvalue(), "fleet.xlsx")
    columns = Columns(memory="Memory [GiB]", kind="GPU model", count="Units")  # as somebody maps them
    assert [(c.kind, c.count, c.gib) for c in cards_of(inventory, columns, 0.5)] == [("L4", 3, 12.0), ("T4", 2, 8.0)]


def test_a_fleet_has_a_client_for_each_card_with_its_speed_and_every_name_once():
    inventory = read_inventory("2 x T4, 16 GB ~ .5\n1 x L4, 24 GB")
    fleet = fleet_of_cards(cards_of(inventory, inventory.columns))
    assert fleet.names == ("L4 #1", "T4 #1", "T4 #2")
    assert (fleet.capacity_N_bytes / GIB).tolist() == [24, 16, 16]
    assert fleet.relative_speed_N.tolist() == [1, 0.5, 0.5]
    machines = read_inventory("host,gpu,mem gb\nsame,T4,16\nsame,T4,16\n")
    assert len(set(fleet_of_cards(cards_of(machines, machines.columns)).names)) == 2


def test_the_short_list_reads_back_to_the_same_cards():
    inventory = read_inventory(GERMAN)
    kinds = cards_of(inventory, inventory.columns)
    again = read_inventory(written(kinds).replace("\n", ";"))
    assert cards_of(again, again.columns) == kinds


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("gpu,mem gb\nT4,lots\n", "no column of memory"),
        ("gpu,mem gb\nT4,16\nT4,16\nT4,16\nL4,unknown\n", "row 4"),
        ("gpu,count,mem gb\nT4,1.5,16\n", "whole"),
        ("GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-1)", "prints no memory"),
        ("gpu,mem gb\n", "no rows"),
        ("gpu,mem gb\nT4,16\nL4,1e300\n", r"row 2 \('L4'\): the card has 1e\+300 GiB to use.* at most 1e\+09"),
        ("gpu,mem gb\nT4,16\nL4,1e400\n", "mem gb is '1e400'; it must be a finite number"),
        ("gpu,count,mem gb\nT4," + "9" * 400 + ",16\n", "it must be a finite number"),
        (b"\x00\x01\x02 \x00", "neither text nor"),
        (b"PK\x03\x04 broken", "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(text, words):
    with pytest.raises(InvalidInputError, match=words):
        cards(text)


@pytest.mark.parametrize("text", ["|||", "   |  ", "sep=,", "|---|---|\n+---+\n", "=\n\n-", ",,,"])
def test_a_list_of_ruling_lines_alone_has_no_card(text):
    with pytest.raises(InvalidInputError, match="the list has no row with a card; give a row for each card"):
        read_inventory(text)


def test_a_size_that_goes_on_behind_its_unit_is_no_column_of_memory():
    with pytest.raises(InvalidInputError, match="no column of memory is chosen"):
        cards("T4, 15360 MiB of memory\nL4, 24576 MiB of memory")


def test_a_number_of_cards_may_stand_before_a_size_alone():
    assert cards("4 x 24 GB\n2 x  16 GiB") == [("24 GiB card", 4, 24.0), ("16 GiB card", 2, 16.0)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("card,VRAM (GB)\nA," + "1" * 40_000, "line 2 of the list has 40,002 characters; at most 10,000 are read"),
        ("card,VRAM (GB)\nA,24\nB," + "1" * 600, "row 3 of the table has a cell of 600 characters"),
        ("NVIDIA-SMI\n| 1MiB / " + "1" * 5_000 + "MiB", "has 5000 digits of MiB; no card has so many"),
        ("A, 24 GB\n" * 20_001, "the list has 20,001 cards; at most 20,000 lines are read"),
        ("\n" * 100_001 + "A, 24 GB", "the list has 100,002 lines; at most 100,000 are read"),
    ],
    ids=["line", "cell", "digits", "cards", "lines"],
)
def test_a_list_of_more_than_is_read_says_where(text, words):
    with pytest.raises(InvalidInputError, match=words):
        read_inventory(text)


@pytest.mark.parametrize(
    "text",
    [
        "NVIDIA-SMI\n| 0 " + " " * 9_000,
        "GPU 0:" + " " * 9_000,
        "GPU 0:" + "\r" * 90_000,
        "NVIDIA-SMI\n" + "1" * 9_000,
        "card,VRAM (GB)\n" + ("A,1" + " " * 480 + "x\n") * 10_000,
        "A" + "," * 400 + "x\n4 x A 24 GB",
        ("4 x" + " " * 490 + "x\n") * 10_000,
        ("4 x A 24 ~ " + "1" * 480 + "x\n") * 10_000,
    ],
    ids=["smi", "list", "returns", "digits", "cells", "commas", "spaces", "speed"],
)
def test_a_list_written_to_cost_time_is_read_or_refused_at_once(text):
    began = time.process_time()
    try:
        inventory = read_inventory(text)
        read_cards(inventory, inventory.columns)
    except InvalidInputError:
        pass
    assert time.process_time() - began < 3


def test_a_card_has_the_memory_that_its_row_says_however_small():
    inventory = read_inventory("card,VRAM (GiB),share\nA,0.0004,1\nB,0.5e-3,1\nC,40 MiB,1\nD,1,0.03\nE,23.98828125,1\n")
    kinds = cards_of(inventory, inventory.columns)
    assert {card.kind: card.gib for card in kinds} == {
        "A": 0.0004,
        "B": 0.0005,
        "C": 0.0390625,
        "D": 0.03,
        "E": 23.98828125,
    }
    fleet = fleet_from_csv_of(kinds)
    assert (fleet.capacity_N_gib == [card.gib for card in kinds]).all()
    again = read_inventory(written(kinds))
    assert cards_of(again, again.columns) == kinds


def test_a_share_of_a_card_is_the_product_of_the_decimals_that_are_written():
    inventory = read_inventory("card,GiB,share\nA,24,0.8\nA,19.2,1\nB,1,0.03\nB,0.1,0.3\n")
    kinds = cards_of(inventory, inventory.columns)
    assert [(card.kind, card.count, card.gib) for card in kinds] == [("A", 2, 19.2), ("B", 2, 0.03)]
    assert [card.gib for card in cards_of(read_inventory("1 x A, 24 GiB"), WRITTEN_COLUMNS, 0.8)] == [19.2]
    assert written(kinds) == "2 x A, 19.2 GiB\n2 x B, 0.03 GiB"
    smallest = read_inventory("a,0.00004 GiB ~ 0.00001\nb, 3 GiB ~ 2")
    assert written(cards_of(smallest, smallest.columns)) == "1 x b, 3 GiB ~ 2\n1 x a, 0.00004 GiB ~ 0.00001"


WRITTEN_COLUMNS = read_inventory("1 x A, 24 GiB").columns


def fleet_from_csv_of(kinds):
    return read_fleet_csv(fleet_of_cards(kinds).to_frame().to_csv(index=False).encode())


@pytest.mark.parametrize("cell", ["1 TB", "1TB", "1TiB", "1 To", "1To", "1073741824 KB", "1073741824KB", "1048576mb"])
def test_a_unit_counts_alike_with_and_without_a_space_before_it(cell):
    assert cards(f"machine,GPU memory\na,{cell}\nb,24GB\n") == [("1.02e+03 GiB card", 1, 1024), ("24 GiB card", 1, 24)]


@pytest.mark.parametrize("header", ["memory (TB)", "memory_tb", "memory [TiB]"])
def test_a_header_may_say_that_sizes_are_in_terabytes(header):
    assert cards(f"machine,{header}\na,1\nb,0.5\n") == [("1.02e+03 GiB card", 1, 1024), ("512 GiB card", 1, 512)]


def test_what_begins_with_zero_and_a_comma_is_a_decimal():
    """Read as thousands, 0,333 is 333: above 1, so every share of the list would be in percent."""
    assert cards("card;memory;share\nA;40GB;0,333\nB;80GB;0,07\n") == [("A", 1, 13.32), ("B", 1, 5.6)]
    assert cards("card;memory;share\nA;1GB;0,333\n") == [("A", 1, 0.333)]
    assert cards("card;memory\nA;0,125 GB\nB;1,024 GB\n") == [("B", 1, 1.024), ("A", 1, 0.125)]
    assert cards('card,memory\nA,"81,920 MiB"\nB,"10,240 MiB"\n') == [("A", 1, 80), ("B", 1, 10)]


def test_more_than_all_of_a_card_is_refused():
    inventory = read_inventory("card,memory,share\nA,40GB,120 %\n")
    with pytest.raises(InvalidInputError, match="row 1: share is 120 %; a card has at most 100 %"):
        cards_of(inventory, inventory.columns)


@pytest.mark.parametrize("separator", ["\t", ";", "|"])
@pytest.mark.parametrize("title", ["", "Inventory 2026\n"])
def test_thousands_do_not_separate_columns(separator, title):
    rows = [("card", "count", "memory (bytes)"), ("A", "35", "13,019,119,616"), ("B", "44", "1,073,741,824")]
    assert cards(title + "\n".join(map(separator.join, rows))) == [("A", 35, 12.125), ("B", 44, 1)]


def test_a_number_with_an_exponent_is_that_number():
    assert cards("gpu,memory bytes\nA,2.5769803776e10\n") == [("A", 1, 24.0)]


def test_a_workbook_of_more_rows_than_are_read_is_refused_before_it_is_read(monkeypatch):
    openpyxl = pytest.importorskip("openpyxl")
    workbook, content = openpyxl.Workbook(write_only=True), io.BytesIO()  # which does not say how large its sheet is
    sheet = workbook.create_sheet()
    for _ in range(20_003):
        sheet.append(["L4", 24])
    workbook.save(content)
    monkeypatch.setattr(openpyxl, "load_workbook", lambda *_, **__: pytest.fail("read"))
    with pytest.raises(InvalidInputError, match="larger than 20,000 rows of 60 columns, the most that is read"):
        read_inventory(content.getvalue(), "fleet.xlsx")
