"""Which column of a table is what: the memory of a card rather than of a machine, a number of cards and no other."""

from __future__ import annotations

import pytest

from tests.data.card_lists import cards, doubts
from zorba_core.data.inventory.numbers import unit_in
from zorba_core.errors import InvalidInputError


@pytest.mark.parametrize(
    ("header", "unit"),
    [
        ("VRAM available to training (GB)", "GiB"), ("Memory to go", None), ("Speicher m. ECC (GB)", "GiB"),
        ("Memory in G", "GiB"), ("Mémoire Go", "GiB"), ("mémoire (go)", "GiB"), ("memory_mb", "MiB"), ("RAM g", None),
        ("GPU memory (GB HBM2e)", "GiB"), ("memory.total [MiB]", "MiB"),
    ],
)  # fmt: skip
def test_a_small_word_of_a_header_is_no_unit(header, unit):
    assert unit_in(header) == unit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("host,RAM (GB),GPU,GPU RAM (GB)\na,256,RTX 3090,24\n", [("RTX 3090", 1, 24)]),
        ("Rechner;Speicher (GB);Karte;GPU-Speicher (GB)\na;256;RTX 3090;24\n", [("RTX 3090", 1, 24)]),
        ("Machine;Mémoire (Go);Carte;Mémoire GPU (Go)\na;256;RTX 3090;24\n", [("RTX 3090", 1, 24)]),
        ("host,Memory (GB),GPU,Video RAM (GB)\na,256,RTX 3090,24\n", [("RTX 3090", 1, 24)]),
        ("Node,Node VRAM (GB),GPU,GPUs,GPU VRAM (GB)\na,640,A100,8,80\n", [("A100", 8, 80)]),
        ("GPU,VRAM required (GB),VRAM (GB)\nA100,10,80\n", [("A100", 1, 80)]),
        ("GPU,Dedicated GPU memory (GB),Shared GPU memory (GB)\nT4,16,8\n", [("T4", 1, 16)]),
        ("GPU,GPU memory,Partition\nA100,80 GB,2\n", [("A100", 1, 80)]),
        ("GPU,GPU memory,Part number\nA100,80 GB,90021\n", [("A100", 1, 80)]),
        ("GPU,Count,VRAM,Market share %\nT4,8,16 GB,80\n", [("T4", 8, 16)]),
        ("GPU;Anzahl;VRAM GB;Anteil am Bestand (%)\nT4;8;16;80\n", [("T4", 8, 16)]),
        ("#,GPU,VRAM (GB)\n1,T4,16\n2,L4,24\n", [("L4", 1, 24), ("T4", 1, 16)]),
        ("S. No.,Item,VRAM (GB),Qty\n1,T4,16,4\n2,L4,24,8\n", [("L4", 8, 24), ("T4", 4, 16)]),
        ("Number,Item,Qty,VRAM (GB)\n7,T4,4,16\n", [("T4", 4, 16)]),
        ("PC number,GPU,VRAM (GB)\n0,T4,16\n1,L4,24\n", [("L4", 1, 24), ("T4", 1, 16)]),
        ("GPU,Compute Units,VRAM\nMI250,208,128 GB\n", [("MI250", 1, 128)]),
        ("GPU;Anzahl Kerne;VRAM\nA100;64;80 GB\n", [("A100", 1, 80)]),
        ("Desk No.,GPU,VRAM GB\n12,T4,16\n", [("T4", 1, 16)]),
        ("gpu,VRAM GB,Sockets per node,GPUs\nA100,80,2,8\n", [("A100", 8, 80)]),
        ("gpu,VRAM GB,RAM per node,GPUs\nA100,80,1024,8\n", [("A100", 8, 80)]),
        ("Nodes,GPU,GPUs/server,VRAM GB\n4,A100,8,80\n", [("A100", 32, 80)]),
        ("GPU,VRAM GB,Number of servers,GPUs\nT4,16,4,8\n", [("T4", 32, 16)]),
        ("PCs;Karte;Karten pro PC;VRAM GB\n4;A100;8;80\n", [("A100", 32, 80)]),
        ("Systems,GPU,GPUs per system,VRAM GB\n4,A100,8,80\n", [("A100", 32, 80)]),
        ("GPU,VRAM GB,Speed (tokens/sec)\nA100,80,350\n", [("A100", 1, 80)]),
        ("A100;24 Go\nT4;16 GB\n", [("A100", 1, 24), ("T4", 1, 16)]),
        ("n1;A100;80 GB HBM2e\nn2;A100;80 GB HBM2e\n", [("A100", 2, 80)]),
        (
            "GPU       VRAM     Count\nRTX 3090  24,5 GB  4\nT4        16,0 GB  2\n",
            [("RTX 3090", 4, 24.5), ("T4", 2, 16)],
        ),
        ("|Node|mem GB|count|\n|---|---|---|\n|a|80|2|\n||24|4|\n", [("80 GiB card", 2, 80), ("24 GiB card", 4, 24)]),
    ],
)
def test_a_column_is_taken_for_what_its_words_say(text, expected):
    assert sorted(count for _, count, _ in cards(text)) == sorted(count for _, count, _ in expected)
    assert sorted(gib for *_, gib in cards(text)) == sorted(gib for *_, gib in expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "host,GPU,RAM (GB)\na,T4,128\n",
            "'RAM (GB)' is read as the card's memory; beside 'host' it may be the machine",
        ),
        ("Type,GPU,vCPUs,Memory (GB)\nx,T4,8,128\n", "beside 'vCPUs' it may be the machine's"),
        ("GPU,Min VRAM (GB),Max VRAM (GB)\nA100,40,80\n", "is read as the memory of each card, not"),
        (
            "GPU1,VRAM1 GB,GPU2,VRAM2 GB\nA100,80,T4,16\n",
            "'VRAM1 GB' is read as the memory of each card, not 'VRAM2 GB'",
        ),
        ("gpu,GPUs,VRAM per node (GB)\nA100,8,640\n", "is read as the memory of one card; if it is of all of them"),
        ("gpu,GPUs,Combined VRAM (GB)\nA100,8,640\n", "is read as the memory of one card; if it is of all of them"),
        ("gpu,GPUs per node,VRAM (GB)\nA100,8,80\n", "no column counts machines; each row is read as one"),
        ("GPU,VRAM GB,Qty planned,GPUs\nT4,16,10,4\n", "is read as the number of cards, not"),
        ("GPU,Memory GB or MB\nT4,16\n", "'Memory GB or MB' names several units; it is read in MiB"),
        ("GPU,VRAM (GB),Memory free (GB)\nT4,16,12\n", "'Memory free (GB)' is read as free memory of the card"),
    ],
)
def test_a_column_that_may_be_another_is_pointed_out(text, words):
    assert words in doubts(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("NAME  GPU   MEM GB  COUNT\na     A100  80      4\nb     T4    16\n", "has 3 cells and the first has 4"),
        ("gpu,memory GB,share\nT4,16,1.5\n", "share is '1.5', above 1 and without %; write 0.8 or 80 %"),
    ],
)
def test_a_table_that_may_be_read_in_two_ways_is_refused(text, words):
    with pytest.raises(InvalidInputError, match=words):
        cards(text)
