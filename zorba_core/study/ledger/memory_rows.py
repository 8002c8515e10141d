"""Claims about VRAM: Table II's cells, the percentages of the abstract, Fig. 1, and what the capacities allow."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from zorba_core.engine.methods.registry import method_facts
from zorba_core.errors import InvalidInputError, MissingDataError
from zorba_core.files import read_json
from zorba_core.fleet import Fleet
from zorba_core.study.ledger.claims import Claim
from zorba_core.study.ledger.findings import (
    CAPACITIES,
    CAPACITIES_HOLD,
    SAVINGS,
    VRAM_FITS,
    VRAM_FROM_TOTALS,
    VRAM_MISPRINT,
)
from zorba_core.study.ledger.printed import BATCH_SIZE, METHOD_TITLES, MODEL_TITLES, NUM_CLIENTS, TABLE_2_VRAM, VramRow
from zorba_core.vram import GIB, Workload, model_spec, psi_block_bytes, psi_model_bytes

TOLERANCE_GIB = 0.05
_PARAMETERS_BY_ZORBA = {"opt-125m": 125_000_000, "opt-1.3b": 1_300_000_000}  # the round d that ZorBA's cells fit
_PRINTED_GIB = 0.005  # half of the last printed digit
_FLEETS = 1000
MIB = GIB / 1024
MEASURED = Path("artifacts/benchmarks/memory.json")


def rows(checkout: Path) -> list[Claim]:
    """
    Raises:
        MissingDataError: the measured memory is not there; names the command that makes it.
    """
    return [*_cells(), _parameters(), *_percentages(), *_figure_1(checkout), *_capacities()]


def cell_gib(row: VramRow, method: str) -> float:
    """One cell of Table II by the paper's own model."""
    workload = Workload(batch_size=BATCH_SIZE, seq_len=row.seq_len)
    blocks = row.total_blocks if method == "zorba" else None
    return method_facts(method).total_bytes(model_spec(row.model), workload, NUM_CLIENTS, blocks) / GIB


def _cells() -> list[Claim]:
    claims = []
    for row in TABLE_2_VRAM:
        for method, printed in row.gib.items():
            ours = cell_gib(row, method)
            fits = abs(ours - printed) <= TOLERANCE_GIB
            by_total = fits and method == "zorba"
            blocks = f" --total-blocks {row.total_blocks}" if method == "zorba" else ""
            claims.append(
                Claim(
                    id=f"table-2/vram/{row.model}/{row.dataset.lower()}/{method}",
                    claim=f"{METHOD_TITLES[method]} takes {printed} GB of VRAM over all clients "
                    f"({MODEL_TITLES[row.model]}, {row.dataset})",
                    where="Table II",
                    printed=printed,
                    ours=round(ours, 2),
                    unit="GiB, all clients",
                    verdict="consistent" if by_total else "reproduced" if fits else "contradicted",
                    how=f"zorba vram --model {row.model} --seq-len {row.seq_len} --batch-size {BATCH_SIZE} "
                    f"--clients {NUM_CLIENTS} --method {method}{blocks}",
                    evidence=(
                        "zorba_core.engine.methods.registry.MethodFacts.total_bytes",
                        "notebooks/02_vram_model.ipynb",
                    ),
                    note=_total_text(row) if method == "zorba" else "",
                    counter_example="" if fits else _misprint_text(row, ours),
                    finding=VRAM_FROM_TOTALS if by_total else VRAM_FITS if fits else VRAM_MISPRINT,
                )
            )
    return claims


def acceptance_share(row: VramRow, tolerance_gib: float = TOLERANCE_GIB) -> float:
    """The share of arbitrary numbers that a ZorBA cell would accept: those within the tolerance of some whole number of
    activated blocks. A block is the distance between two such numbers."""
    block = psi_block_bytes(model_spec(row.model), Workload(batch_size=BATCH_SIZE, seq_len=row.seq_len)) / GIB
    return min(1.0, 2 * tolerance_gib / block)


def _total_text(row: VramRow) -> str:
    total = model_spec(row.model).num_blocks * NUM_CLIENTS
    return (
        f"the cell stands for {row.total_blocks} of {total} activated blocks, a number that the paper does not print: "
        f"it is read off the cell itself, so the cell cannot test the model. Of arbitrary numbers "
        f"{acceptance_share(row):.0%} lie within {TOLERANCE_GIB} GiB of a whole number of blocks. What speaks for it: "
        "the totals of all six cells are multiples of 25"
    )


def _misprint_text(row: VramRow, ours: float) -> str:
    others = TABLE_2_VRAM[TABLE_2_VRAM.index(row) - 1].gib
    copy = others["fedit"] - others["fedzo"]
    return (
        f"the paper's own model gives {ours:.2f} with d = {model_spec(row.model).num_parameters / 1e9:.3f}e9; FedIT's "
        f"cell of the row is this and one more copy of the parameters, {ours + _copy_gib(row):.2f}. Two digits are "
        f"swapped in print. (From print alone, FedIT's {row.gib['fedit']:.2f} less the {copy:.2f} of the row "
        f"above for a copy, it is {row.gib['fedit'] - copy:.2f}: the printed baselines round d up, row "
        "vram/parameters)"
    )


def _copy_gib(row: VramRow) -> float:
    workload = Workload(batch_size=BATCH_SIZE, seq_len=row.seq_len)
    return NUM_CLIENTS * psi_model_bytes(model_spec(row.model), workload) / GIB


def parameters_of(row: VramRow, method: str) -> tuple[float, float]:
    """Least and largest number of parameters d with which a cell comes out to its last printed digit."""
    model, workload = model_spec(row.model), Workload(batch_size=BATCH_SIZE, seq_len=row.seq_len)
    blocks = row.total_blocks if method == "zorba" else model.num_blocks * NUM_CLIENTS
    activations = blocks * psi_block_bytes(model, workload) / GIB
    copies = NUM_CLIENTS * (2 if method == "fedit" else 1) * workload.bytes_per_number
    low, high = ((row.gib[method] + slack - activations) * GIB / copies for slack in (-_PRINTED_GIB, _PRINTED_GIB))
    return low, high


def common_parameters(model: str, zorba: bool) -> tuple[float, float]:
    """The d that fit all of ZorBA's cells of a model, or all baselines' save the misprint; empty if low > high."""
    ranges = [
        parameters_of(row, method)
        for row in TABLE_2_VRAM
        for method in row.gib
        if row.model == model and (method == "zorba") == zorba and abs(cell_gib(row, method) - row.gib[method]) < 1
    ]
    return max(low for low, _ in ranges), min(high for _, high in ranges)


def rounded_cell(row: VramRow, method: str) -> str:
    """A cell as printed if each client's parameters are first rounded to 0.001 GiB; d as ZorBA's cells have it."""
    parameters = _PARAMETERS_BY_ZORBA[row.model]
    model, workload = model_spec(row.model), Workload(batch_size=BATCH_SIZE, seq_len=row.seq_len)
    blocks = row.total_blocks if method == "zorba" else model.num_blocks * NUM_CLIENTS
    copies = 2 if method == "fedit" else 1
    each = round(parameters * workload.bytes_per_number / GIB, 3)
    return f"{NUM_CLIENTS * copies * each + blocks * psi_block_bytes(model, workload) / GIB:.2f}"


def _parameters() -> Claim:
    ours, theirs = common_parameters("opt-125m", True), common_parameters("opt-125m", False)
    cells = [(row, method) for row in TABLE_2_VRAM for method in row.gib if method != "zorba"]
    rounded = sum(rounded_cell(row, method) == f"{row.gib[method]:.2f}" for row, method in cells)
    least = acceptance_share(TABLE_2_VRAM[0], _PRINTED_GIB)
    return Claim(
        id="vram/parameters",
        claim="ZorBA's VRAM cells of OPT-125M were computed with another number of parameters than the baselines'",
        where="not in the paper; beside Table II",
        printed=None,
        ours=f"ZorBA's three cells fit to the last digit for d from {_millions(ours)}, so 125.0 M; the nine of the "
        f"baselines for d from {_millions(theirs)}, so 125.1 M",
        unit="parameters d of OPT-125M",
        verdict="beyond the paper",
        how="zorba report (zorba_core.study.ledger.memory_rows.common_parameters)",
        evidence=(
            "zorba_core.study.ledger.memory_rows.common_parameters",
            "zorba_core.study.ledger.printed.TABLE_2_VRAM",
        ),
        note=f"no d fits both. One explanation: {rounded} of the baselines' {len(cells)} cells of both models come out "
        "to the last digit with d = 125.0 M and 1.300e9 if a client's parameters are first rounded to 0.466 and "
        f"4.843 GiB (the other {len(cells) - rounded} are the misprint), and ZorBA's do without that rounding. The "
        "difference is 0.02 GiB over all clients. The suite's preset has 125.1 M, so its ZorBA cells are 0.02 GiB "
        f"high. To the last digit a ZorBA cell of OPT-125M at L = 128 accepts {least:.0%} of arbitrary numbers",
    )


def _millions(ends: tuple[float, float]) -> str:
    return f"{ends[0] / 1e6:.2f} to {ends[1] / 1e6:.2f} M"


def _percentages() -> list[Claim]:
    claims = []
    for baseline, printed in (("fedit", 62.41), ("fedzo", 54.75), ("decomfl", 54.75)):
        savings = [100 * (1 - row.gib["zorba"] / row.gib[baseline]) for row in TABLE_2_VRAM]
        most = max(savings)
        row = TABLE_2_VRAM[savings.index(most)]
        claims.append(
            Claim(
                id=f"saving/{baseline}",
                claim=f"ZorBA takes up to {printed} % less VRAM than {METHOD_TITLES[baseline]}",
                where="abstract; section V-B2",
                printed=printed,
                ours=round(most, 2),
                unit="%",
                verdict="reproduced" if abs(most - printed) <= 0.01 else "contradicted",
                how="zorba report (from the cells of Table II)",
                evidence=(
                    "zorba_core.study.ledger.printed.TABLE_2_VRAM",
                    "zorba_core.engine.methods.registry.MethodFacts.total_bytes",
                ),
                note=f"row {MODEL_TITLES[row.model]}, {row.dataset}: {row.total_blocks} blocks activated. Within the "
                "paper's VRAM model; measured, activated blocks cost no memory (fig-1/linear)",
                counter_example="" if abs(most - printed) <= 0.01 else f"the largest saving is {most:.2f} %",
                finding=SAVINGS,
            )
        )
    return claims


def _figure_1(checkout: Path) -> list[Claim]:
    model, workload = model_spec("opt-125m"), Workload(batch_size=BATCH_SIZE, seq_len=128)
    activations = model.num_blocks * psi_block_bytes(model, workload)
    share = 100 * activations / (activations + psi_model_bytes(model, workload))
    measured = read_measured(checkout / MEASURED)
    least, most = min(measured), max(measured)
    growth = measured[most] - measured[least]
    by_model = (most - least) * psi_block_bytes(model, workload) / MIB
    return [
        Claim(
            id="fig-1/share",
            claim="forward-pass activations are a significant portion of VRAM",
            where="Fig. 1; section I",
            printed=None,
            ours=round(share, 1),
            unit="% of psi with all 12 blocks activated, OPT-125M, B=8, L=128",
            verdict="reproduced",
            how="zorba vram --model opt-125m --seq-len 128 --clients 1 --total-blocks 12",
            evidence=("zorba_core.vram.psi_block_bytes", "notebooks/02_vram_model.ipynb"),
            note="by the paper's model, which the figure draws; the figure's numbers are not in the text. Measured, a "
            f"round holds {measured[most]:.0f} MiB beside {psi_model_bytes(model, workload) / MIB:.0f} MiB of "
            "parameters (fig-1/linear)",
        ),
        Claim(
            id="fig-1/linear",
            claim="VRAM increases linearly with the number of activated blocks",
            where="Fig. 1; section I",
            printed=round(by_model, 1),
            ours=round(growth, 1) + 0.0,  # no minus zero
            unit=f"MiB more with {most} activated blocks than with {least}, OPT-125M's sizes, B=8, L=128",
            verdict="contradicted" if growth < by_model / 4 else "reproduced",
            how="python -m tests.benchmarks.bench_memory",
            evidence=(str(MEASURED), "notebooks/02_vram_model.ipynb"),
            note="measured as growth of a process's resident memory on CPU",
            counter_example=f"a whole round of one client: {measured[least]:.1f} MiB above the loaded model with "
            f"{least} activated block, {measured[most]:.1f} MiB with {most}. Without a backward pass a block's tensors "
            "are freed before the next block's are made",
        ),
    ]


def read_measured(path: Path) -> dict[int, float]:
    """MiB above the loaded model by activated blocks, as ``bench_memory`` wrote them.

    Raises:
        MissingDataError, InvalidInputError: no such file, or not its format.
    """
    if not path.is_file():
        raise MissingDataError(f"{path} does not exist; make it with: python -m tests.benchmarks.bench_memory")
    try:
        content = read_json(path)
        return {int(row["active_blocks"]): float(np.mean(row["measured_bytes"])) / MIB for row in content["rows"]}
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{path}: not what tests.benchmarks.bench_memory writes ({error})") from None


def _capacities() -> list[Claim]:
    claims = []
    for row in TABLE_2_VRAM:
        workload = Workload(batch_size=BATCH_SIZE, seq_len=row.seq_len)
        fleets = (Fleet.uniform(row.model, NUM_CLIENTS, seed=seed, workload=workload) for seed in range(_FLEETS))
        totals = np.array([fleet.budget_N.sum() for fleet in fleets])
        able = int((totals >= row.total_blocks).sum())
        all_blocks = model_spec(row.model).num_blocks * NUM_CLIENTS
        claims.append(
            Claim(
                id=f"capacity/{row.model}/{row.dataset.lower()}",
                claim=f"clients' capacities are uniform between one block and all blocks, and ZorBA takes "
                f"{row.gib['zorba']} GB, which is {row.total_blocks} of {all_blocks} blocks "
                f"({MODEL_TITLES[row.model]}, {row.dataset})",
                where="section V-A with Table II",
                printed=row.total_blocks,
                ours=f"room for {int(np.median(totals))}",  # a capacity: not another reading of the printed number
                unit=f"blocks; ours: what a fleet drawn so can hold, median of {_FLEETS}",
                verdict="reproduced" if able >= _FLEETS / 20 else "contradicted",
                how="zorba report (zorba_core.study.ledger.memory_rows)",
                evidence=("zorba_core.fleet.Fleet.uniform", "notebooks/02_vram_model.ipynb"),
                note=f"{able} of {_FLEETS} fleets can hold it; the largest holds {int(totals.max())} blocks",
                counter_example=""
                if able >= _FLEETS / 20
                else f"{_FLEETS - able} of {_FLEETS} fleets hold fewer than {row.total_blocks} blocks",
                finding=CAPACITIES_HOLD if able >= _FLEETS / 20 else CAPACITIES,
            )
        )
    return claims
