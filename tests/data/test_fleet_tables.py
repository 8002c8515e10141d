"""A fleet's table: columns of names and GiB in a CSV or an Excel file, and what nvidia-smi prints."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from app.shared.own_fleet import with_uploaded_fleet
from app.shared.scenario import Scenario
from tests.command import call, check_refused
from zorba_core import read_fleet_table
from zorba_core.data.fleet_tables import fleet_from_frame
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.planning.fleets import two_kinds_fleet

SMI = b"name, memory.total [MiB]\nNVIDIA L4, 23034 MiB\nNVIDIA L4, 23034 MiB\nTesla T4, 15360 MiB\n"


def workbook(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.to_excel(buffer, index=False)
    return buffer.getvalue()


def test_a_fleet_survives_a_round_trip_through_csv_and_excel(tmp_path):
    fleet = two_kinds_fleet(8, 24, 6, 0.5, seed=0)
    path = tmp_path / "fleet.csv"
    fleet.to_frame().to_csv(path, index=False)
    for source in (path, path.read_bytes(), workbook(fleet.to_frame())):
        again = read_fleet_table(source)
        assert again.names == fleet.names
        assert again.capacity_N_bytes.tolist() == fleet.capacity_N_bytes.tolist()


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfVRAM_GiB,client\n8,a\n16.5,b\n",
        b"Name;VRAM (GiB)\na;8\nb;16.5\n",
        b"gpu\tGiB\r\na\t8\r\nb\t16.5\r\n",
        b"client, vram\n\na, 8\nb, 16.5\n",
    ],
)
def test_columns_are_known_by_close_spellings_and_any_usual_separator(content):
    fleet = read_fleet_table(content)
    assert dict(zip(fleet.names, fleet.capacity_N_gib.tolist(), strict=True)) == {"a": 8.0, "b": 16.5}


def test_names_may_be_left_out_and_rows_left_empty_in_an_editor_are_skipped():
    assert read_fleet_table(b"vram_gib\n8\n16.5\n").names == ("client-0", "client-1")
    frame = pd.DataFrame({"client": ["a", None, None], "vram_gib": [8.0, np.nan, 16.0]})
    assert fleet_from_frame(frame).names == ("a", "client-2")
    assert read_fleet_table(workbook(frame)).names == ("a", "client-2")


def test_cards_that_nvidia_smi_lists_are_clients_and_their_mib_are_gib():
    fleet = read_fleet_table(SMI)
    assert fleet.names == ("NVIDIA L4 #1", "NVIDIA L4 #2", "Tesla T4")
    assert fleet.capacity_N_gib.tolist() == [23034 / 1024, 23034 / 1024, 15.0]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "the file is empty; give a table with columns client,vram_gib"),
        (b"client,memory\na,8\n", "columns are client, memory; want client,vram_gib"),
        (b"gpu,count,vram_gib\na,2,8\n", "columns are gpu, count, vram_gib; want client,vram_gib"),
        (b"client,vram_gib\n", "no rows"),
        (b"client,vram_gib\na,8\nb,eight\n", "row 2 (client 'b'): vram_gib is 'eight'; it must be a number of GiB"),
        (b"client,vram_gib\na,nan\n", "finite number above 0"),
        (b"client,vram_gib\na,-8\n", "finite number above 0"),
        (b"client,vram_gib\na,0\n", "finite number above 0"),
        (b"client,vram_gib\na,1e300\n", "vram_gib is '1e300'; it must be a finite number above 0 and at most 1e+09"),
        (b"client,vram_gib\na,\n", "row 1 (client 'a'): vram_gib is ''"),
        (b"client,vram_gib\na,1_6\n", "vram_gib is '1_6'; it must be a number of GiB, such as 24"),
        (b"client,vram_gib\na,8,5\n", "row 1 has 3 cells and the header 2: 'a,8,5'; write numbers with a"),
        (b"client;vram_gib\na;8,5\n", "vram_gib is '8,5'; it must be a number of GiB, with a decimal point, 8.5"),
        (b"client,vram_gib\na,8\nb,9\na,10\n", "client 'a' is there twice; give each its own name"),
        (b'client,vram_gib\n"a,8\n', "not CSV (unexpected end of data)"),
        (b"name, memory.total [MiB]\nL4, [N/A]\n", "row 1 (client 'L4'): memory.total is '[N/A]'; want a size such as"),
        (b"\x89PNG\r\n\x1a\n\xff\xfe", "not UTF-8 text"),
        (b"PK\x03\x04\x00", "the Excel file cannot be read; save it as CSV"),
    ],
)  # fmt: skip
def test_what_is_no_fleet_is_refused_in_one_sentence(tmp_path, content, says):
    with pytest.raises(InvalidInputError) as error:
        read_fleet_table(content)
    assert says in str(error.value)
    (tmp_path / "fleet.csv").write_bytes(content)
    left = call("allocate", "--fleet", str(tmp_path / "fleet.csv"))
    check_refused(left)
    assert says in left.err
    with pytest.raises(InvalidInputError) as uploaded:
        with_uploaded_fleet(content, Scenario())
    assert says in str(uploaded.value)


def test_a_missing_file_says_what_to_give(tmp_path):
    with pytest.raises(MissingDataError, match="does not exist; give a table with columns client,vram_gib"):
        read_fleet_table(tmp_path / "nowhere.csv")
