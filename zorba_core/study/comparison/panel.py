"""What one picture of curves shows: a measure against a cost, one curve a run or a group of seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from zorba_core.errors import InvalidInputError
from zorba_core.study.comparison.curves import Curve, curve_of, group_of, has_target, metrics_of, smoothed
from zorba_core.study.comparison.names import groups, labels
from zorba_core.study.comparison.records import Record


@dataclass(frozen=True, eq=False)
class CurvePanel:
    """Curves, and the runs behind each.

    Attributes:
        behind: a curve's name to its runs; also those without a curve.
        without_curve: names of those with nothing to draw.
        targets: accuracies that the runs are after, rising.
        metric: what the runs count as right.
    """

    curves: tuple[Curve, ...]
    measure: str
    cost: str
    behind: dict[str, list[Record]]
    without_curve: tuple[str, ...]
    targets: tuple[float, ...]
    metric: str = "accuracy"


def panel_of(
    records: Sequence[Record], *, measure: str, cost: str, smoothing: float = 0.0, band: str | None = None
) -> CurvePanel:
    """Curves of single runs, or with ``band`` (a key of ``BANDS``) the mean of each group of seeds.

    Args:
        measure: a column of ``Record.metrics``: eval_accuracy, eval_loss, train_loss.
        cost: another: round, work, bytes, seconds.
        smoothing: weight of the past, from 0 to below 1.
    """
    behind = groups(records) if band else {name: [record] for name, record in labels(records).items()}
    curves, without_curve = [], []
    for name, runs in behind.items():
        try:
            single = [curve_of(run, measure=measure, cost=cost) for run in runs]
            if not any(curve.x_P.size for curve in single):
                raise InvalidInputError("nothing to draw")
            summary = group_of(name, single, band) if band else replace(single[0], name=name)
            curves.append(smoothed(summary, smoothing))
        except InvalidInputError:
            without_curve.append(name)
    targets = sorted({float(record.config["target"]) for record in records if has_target(record)})
    return CurvePanel(tuple(curves), measure, cost, behind, tuple(without_curve), tuple(targets), metrics_of(records))
