"""Every study under conf/study: its commands are ones that would run."""

import re
import shlex

import pytest
from benchkit.cli import check
from benchkit.study import BENCHKIT, read_study

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
    values = study.values({"full_share": "100", "hardware": "slow_gpu", "backend": "gloo"}) | {"out": str(tmp_path)}
    steps = {step.name: step.arguments(values, only_existing=True) for step in study.steps}
    assert all("hardware.full_share=100" in steps[name] for name in ("reference", "rebalance"))
    check(steps["rebalance"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_first_looks_in_comments_name_parameters(path):
    study = read_study(path.stem, FILES)
    for line in re.findall(rf"python -m benchkit study={path.stem} (\S.*)", path.read_text()):
        study.values(dict(word.split("=", 1) for word in shlex.split(line)))
