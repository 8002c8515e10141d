"""The speed of the training engine on this machine, against its lower bound."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from zorba_core.engine.network import BlockNetwork
from zorba_core.runs.environment import describe
from zorba_core.runs.model_source import load_model
from zorba_core.runs.session import use_threads
from zorba_core.study.bench.arithmetic import time_noise, time_precisions
from zorba_core.study.bench.common import LABEL_IDS, BenchSettings, Report
from zorba_core.study.bench.rounds import time_growth, time_padding, time_rounds


def run_bench(settings: BenchSettings, report: Report = lambda line: None) -> dict[str, Any]:
    """Time everything; the result is plain data for JSON."""
    with use_threads(settings.threads):
        model = load_model(settings.model)
        network = BlockNetwork(model, LABEL_IDS, device=settings.device)
        result = {
            "settings": asdict(settings),
            "environment": describe(settings.run_settings),
            "clock": settings.clock_name,
            "model": {"num_blocks": network.num_blocks, "block_parameters": sum(network.sizes_M)},
            "rounds": time_rounds(network, settings, report),
            "noise": time_noise(network, settings, report),
            "padding": time_padding(network, settings, report),
            "precisions": time_precisions(model, settings, report),
        }
        if settings.growth:
            result["growth"] = time_growth(model, settings, report)
        return result
