"""Every study under conf/study: its commands are ones that would run."""

import re
import shlex

import pytest
from benchkit.errors import ConfigError
from benchkit.study import BENCHKIT, parse, read_study, with_overrides
from benchkit.sweep.check import check

from tests.support.cli import ROOT

FILES = sorted((ROOT / "conf" / "study").glob("*.yaml"))


@pytest.mark.parametrize("name", [path.stem for path in FILES])
def test_steps_compose(name, tmp_path):
    study = read_study(name, FILES)
    for step in study.steps:
        words = step.arguments(study.parameters | {"out": str(tmp_path)}, only_existing=True)
        if step.module == BENCHKIT:
            check(words)


def test_two_ranks_of_one_gpu_have_the_shares_of_the_study(tmp_path):
    study = read_study("hetero_ring_gpu", FILES)
    given = {"full_share": "100", "hardware": "slow_gpu", "backend": "gloo", "out": str(tmp_path)}
    values = study.parameters | given
    steps = {step.name: step.arguments(values, only_existing=True) for step in study.steps}
    assert all("hardware.full_share=100" in steps[name] for name in ("reference", "rebalance"))
    check(steps["rebalance"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_first_looks_in_comments_name_parameters(path):
    study = read_study(path.stem, FILES)
    for line in re.findall(rf"python -m benchkit study={path.stem} (\S.*)", path.read_text()):
        _, overrides = study.split(shlex.split(line))
        assert not overrides


TAKEN = [
    ("hetero_ring strategies=[even,lut]", {"rebalance": ["strategies=[even,lut]"]}),
    ("hetero_ring measure.max_iterations=9", {step: ["measure.max_iterations=9"] for step in ("lut", "rebalance")}),
    (
        "cs336_allreduce measure.max_iterations=200 measure.warmup_iterations=10 repeat=2",
        {step: ["repeat=2", "measure.max_iterations=200", "measure.warmup_iterations=10"] for step in ("cpu", "gpu")},
    ),
    ("gt_scaling workload=mlp_512x256x512x256", {"scaling": ["workload=mlp_512x256x512x256"]}),
    (
        "gt_scaling hydra.launcher.nodes=2 launcher=slurm",
        {"scaling": ["launcher=slurm", "hydra.launcher.nodes=2"]},
    ),
    ("ddlb_rowwise +backend.env.GLOO_SOCKET_IFNAME=lo", {"rowwise": ["+backend.env.GLOO_SOCKET_IFNAME=lo"]}),
]


@pytest.mark.parametrize(("line", "taken"), TAKEN, ids=[line for line, _ in TAKEN])
def test_sweeps_take_the_keys_that_they_have(line, taken):
    request = with_overrides(parse([f"study={line.split()[0]}", *line.split()[1:]], FILES))
    assert {step.name: list(step.overrides) for step in request.study.steps if step.overrides} == taken


REFUSED = [
    "hetero_ring strategis=[even]",
    "hetero_ring measure.max_iterations=-3",
    "hetero_ring hydra.launcher.nodes=2",
    "cs336_transformer measure.max_iterations=5",
    "hetero_ring_gpu hardware.slow_by=mps",
]


def test_keys_that_no_sweep_takes_are_refused(golden):
    refusals = []
    for line in REFUSED:
        with pytest.raises(ConfigError) as refusal:
            with_overrides(parse([f"study={line.split()[0]}", *line.split()[1:]], FILES))
        refusals.append(str(refusal.value))
    golden("\n".join(refusals))
