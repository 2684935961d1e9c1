"""What `tfperf topology` prints of the stand-in's machines, through the real pynvml."""

from __future__ import annotations

from dataclasses import replace

from pytest_tfperf.core.topology import Host
from pytest_tfperf.features.topology import render
from pytest_tfperf.hardware.discovery import discover
from tests.helpers.expected import SameTexts
from tests.helpers.nvml_scenarios import SCENARIOS
from tests.helpers.stand_in_libraries import NvmlScenario

HOST = Host(cpu_model="AMD EPYC", usable_cores=8, total_cores=8)


def test_each_machine_has_its_name_gpus_and_links(nvml_scenario: NvmlScenario, tmp_path, same_texts: SameTexts):
    def printed(name: str) -> str:
        nvml_scenario(name)
        topology = replace(discover({}, tmp_path), host=HOST)
        return "\n".join("\n".join(render(topology)).split("\n\n")[:2])  # the rest: the matrix of links, and its legend

    same_texts("machines", {name: printed(name) for name in SCENARIOS})
