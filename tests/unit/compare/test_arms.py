"""What an arm is, by what was typed."""

import os
import sys
from pathlib import Path

from benchkit.compare.arms import is_arm, parse_arm

TREES = Path("/nowhere")


def test_words_are_told_apart():
    arms = ["plain", "env:A=1", "set:data_size=1", "venv:x", "tree:.", "git:main"]
    assert all(map(is_arm, arms))
    assert not any(map(is_arm, ["+suite=allreduce", "-m", "plainly", "lut=tree:x", "--pairs", "set"]))


def test_commas_separate_variables():
    arm = parse_arm("env:NCCL_ALGO=Ring,Tree,A_2=,B=x=y", TREES)
    assert arm.environment == {"NCCL_ALGO": "Ring,Tree", "A_2": "", "B": "x=y"}
    assert arm.variables() == os.environ | arm.environment
    assert arm.is_here


def test_arm_overrides_replace_common_ones():
    arm = parse_arm("set:data_size=1,10,+backend.env.X=2,devices=[1,8]", TREES)
    assert arm.overrides == ["data_size=1,10", "+backend.env.X=2", "devices=[1,8]"]
    common = ["--config-dir", "conf", "+suite=allreduce", "-m", "data_size=5", "world_size=2"]
    assert arm.arguments(common) == [
        *common[:4], "data_size=1,10", "world_size=2", "+backend.env.X=2", "devices=[1,8]",
    ]  # fmt: skip
    assert parse_arm("plain", TREES).arguments(common) == common


def test_a_folder_comes_first_on_the_path(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/before")
    arm = parse_arm(f"tree:{tmp_path}", TREES)
    assert arm.variables()["PYTHONPATH"] == f"{tmp_path}{os.pathsep}/before"
    assert arm.folder == str(tmp_path)
    assert not arm.is_here


def test_an_environment_has_its_interpreter(tmp_path):
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    arm = parse_arm(f"venv:{tmp_path}", TREES)
    assert arm.python == str(python)  # not what it links to, which is outside the environment
    assert arm.variables()["VIRTUAL_ENV"] == str(tmp_path)
    assert arm.variables()["PATH"].startswith(f"{python.parent}{os.pathsep}")
