"""Observations 1 to 4, on all 265 matrices of the 3 x 3 toy."""

from __future__ import annotations

import itertools

import numpy as np
from scipy import stats

from zorba_core.study.ledger.claims import Claim
from zorba_core.study.toy.matrices import MatrixClass, enumerate_classes
from zorba_core.study.toy.observations import UNEVEN, lettered_classes, uneven_pairs, uneven_pairs_by_variance

_HOW = "zorba report (zorba_core.study.ledger.toy_rows)"
_EVIDENCE = ("zorba_core.study.toy.matrices.enumerate_classes", "notebooks/01_toy_example.ipynb")


def rows() -> list[Claim]:
    classes = enumerate_classes()
    count = sum(each.count for each in classes)
    note = f"all {count} matrices, in {len(classes)} classes up to the order of blocks and clients"
    return [
        _observation_1(classes, note),
        _observation_2(classes, note),
        _observation_3(classes, note),
        _observation_4(note),
    ]


def _pairs(classes: list[MatrixClass]) -> list[tuple[MatrixClass, MatrixClass]]:
    """(fewer blocks, more blocks)."""
    return [(a, b) for a, b in itertools.permutations(classes, 2) if a.total_blocks < b.total_blocks]


def _observation_1(classes: list[MatrixClass], note: str) -> Claim:
    totals, lambdas = [each.total_blocks for each in classes], [each.bias_lambda for each in classes]
    rho = float(stats.spearmanr(totals, lambdas).statistic)
    best = min(classes, key=lambda each: each.bias_lambda)
    unique = sum(np.isclose(each.bias_lambda, best.bias_lambda) for each in classes) == 1
    holds = rho < 0 and unique and best.total_blocks == 9
    return Claim(
        id="observation-1",
        claim="more activated blocks generally reduce Lambda; it is lowest when all clients activate all blocks",
        where="Observation 1",
        printed=None,
        ours=f"rank correlation of total and Lambda {rho:.2f}; full activation alone has the lowest, "
        f"{best.bias_lambda:.4f}",
        unit="",
        verdict="reproduced" if holds else "contradicted",
        how=_HOW,
        evidence=_EVIDENCE,
        note=f"{note}. About Lambda; whether training is faster for it is row lambda/predicts",
        counter_example="" if holds else f"{best.total_blocks} blocks have the lowest Lambda",
    )


def _observation_2(classes: list[MatrixClass], note: str) -> Claim:
    worse = [(a, b) for a, b in _pairs(classes) if b.bias_lambda >= a.bias_lambda]
    fewer, more = max(worse, key=lambda pair: pair[1].bias_lambda / pair[0].bias_lambda)
    return Claim(
        id="observation-2",
        claim="at a small scale more activated blocks do not always improve convergence (Lambda)",
        where="Observation 2",
        printed=None,
        ours=f"{len(worse)} of {len(_pairs(classes))} pairs of classes have more blocks and no lower Lambda",
        unit="",
        verdict="reproduced" if worse else "contradicted",
        how=_HOW,
        evidence=_EVIDENCE,
        note=f"{note}. Largest: {more.total_blocks} blocks {more.bias_lambda:.4f}, {fewer.total_blocks} blocks "
        f"{fewer.bias_lambda:.4f}",
        counter_example="" if worse else "no such pair",
    )


def _observation_3(classes: list[MatrixClass], note: str) -> Claim:
    pairs = [
        (a, b) for a, b in _pairs(classes) if b.total_blocks == a.total_blocks + 1 and a.bias_lambda < b.bias_lambda
    ]
    example = "; ".join(
        f"{b.total_blocks} blocks {b.bias_lambda:.4f} against {a.total_blocks} blocks {a.bias_lambda:.4f}"
        for a, b in pairs[:2]
    )
    return Claim(
        id="observation-3",
        claim="one more activated block can go with a higher Lambda (case 5 against case 11)",
        where="Observation 3; Fig. 3",
        printed=None,
        ours=f"{len(pairs)} pairs of classes: {example}",
        unit="",
        verdict="reproduced" if pairs else "contradicted",
        how=_HOW,
        evidence=_EVIDENCE,
        note=f"{note}. The figure's cases are not in the text; that such a pair exists is what can be checked",
        counter_example="" if pairs else "no such pair",
    )


def _observation_4(note: str) -> Claim:
    lower, higher = uneven_pairs()
    by_variance = uneven_pairs_by_variance()
    classes = lettered_classes()
    # One whose blocks' popularities differ, as in the paper's cases.
    example = next((pair for pair in lower if len({_popularities(classes[x]) for x in pair}) == 2), None)
    uneven, even = (classes[x] for x in example) if example else (None, None)
    return Claim(
        id="observation-4",
        claim="at equal totals a more imbalanced allocation can have the lower Lambda (case 9 against case 8)",
        where="Observation 4; Fig. 3",
        printed=None,
        ours="no such pair"
        if uneven is None
        else f"{even.total_blocks} blocks: popularities {_popularities(uneven)} have {uneven.bias_lambda:.4f}, the "
        f"more even {_popularities(even)} {even.bias_lambda:.4f}",
        unit="",
        verdict="reproduced" if example else "contradicted",
        how=_HOW,
        evidence=("zorba_core.study.toy.observations.uneven_pairs", *_EVIDENCE),
        note=f"{note}. An example, not a rule: in {len(lower)} pairs of classes the more imbalanced one has the lower "
        f"Lambda, in {len(higher)} the higher. {UNEVEN} By the variance of the popularities alone it is "
        f"{len(by_variance[0])} and {len(by_variance[1])}: the count hangs on the reading, the example does not",
        counter_example="" if example else "no such pair",
    )


def _popularities(matrix_class: MatrixClass) -> str:
    return " ".join(str(c) for c in sorted(matrix_class.representative.popularity_M.tolist(), reverse=True))
