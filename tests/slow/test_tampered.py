"""Timed calls that compute nothing, remember results or give wrong ones are invalid, below every suite."""

import pytest

from tests.support.broken import TAMPERED
from tests.support.cli import Cli

SUITES = {
    "collective": ["collective=all_reduce,all_gather,reduce_scatter,all_to_all"],
    "tp_columnwise": [],
    "tp_rowwise": [],
    "matmul_lut": ["backend=choice(gloo)"],
    "rank_speed": ["tests=[matmul,copy,triad]"],
    "pair_matrix": [],
    "ring_attention": [],
    "ring_model": [],
    "auto_shard": ["workload=choice(matmul_8x4x4)", "engine=dtensor"],  # the dispatcher's ranks act unlike each other
    "compile": [],
    "transformer": ["world_size=2"],
}


@pytest.mark.parametrize("suite", SUITES)
def test_tampered_calls_are_invalid(cli: Cli, suite):
    cli.environment["BENCHKIT_SUITES"] = "tests.support.broken"
    faults = f"fault=none,{','.join(TAMPERED)}"
    cli(f"+suite=smallest_{suite}", "measure=few", "timeout_s=100", *SUITES[suite], "-m", faults)
    found = {}
    for record in cli.records():
        fault = record["config"]["fault"]
        for case in record["cases"] or [{"status": record["status"], "labels": {}}]:
            if case["status"] not in ("unavailable", "skipped") and not case.get("unchecked", "").startswith("all"):
                found.setdefault(fault, set()).add(case["status"])
    assert found == {"none": {"ok"}, **{fault: {"invalid"} for fault in TAMPERED}}
