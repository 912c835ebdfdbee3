"""Studies as their YAML describes them."""

import pytest
from benchkit.errors import ConfigError
from benchkit.study import StudyStep, read_study

GOOD = """
parameters:
  size: 1,2 # MiB
  flag: true
steps:
  sweep: benchkit +suite=allreduce data_size={size} x=${now:%Y}
"""


def study_of(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return read_study("mine", [path])


def test_parameters_fill_commands(tmp_path):
    study = study_of(tmp_path, GOOD)
    assert study.parameters == {"size": "1,2", "flag": "true"}
    given, overrides = study.split(["size=8", "measure.max_iterations=3", "+size=9"])
    assert (given, overrides) == ({"size": "8"}, ["measure.max_iterations=3", "+size=9"])
    values = study.parameters | given | {"out": "/o"}
    assert study.steps[0].arguments(values) == ["+suite=allreduce", "data_size=8", "x=${now:%Y}"]


def test_path_below_folder_is_quoted_for_hydra_alone(tmp_path):
    values = {"out": f"{tmp_path}/it's"}
    (tmp_path / "it's").mkdir()
    sweep = StudyStep("s", "benchkit", ("lut={out}/t.csv", "a=1"))
    assert sweep.arguments(values) == [f"lut='{tmp_path}/it\\'s/t.csv'", "a=1"]
    assert sweep.arguments(values, only_existing=True) == ["a=1"]
    (tmp_path / "it's" / "t.csv").touch()
    assert len(sweep.arguments(values, only_existing=True)) == 2
    assert StudyStep("s", "analysis", ("{out}/t",)).arguments(values) == [f"{tmp_path}/it's/t"]


WRONG = [
    "steps: {}", "step:\n  a: benchkit", "steps:\n  a: rm -rf x", "steps:\n  ../a: benchkit",
    "steps:\n  a: benchkit x={y}", "steps:\n  a: benchkit 'x",
]  # fmt: skip


def test_wrong_files_and_names_get_one_line(tmp_path, golden):
    refused = []
    for text in WRONG:
        with pytest.raises(ConfigError) as refusal:
            study_of(tmp_path, text)
        refused.append(str(refusal.value))
    with pytest.raises(ConfigError) as refusal:
        read_study("mime", [tmp_path / "mine.yaml"])
    refused.append(str(refusal.value))
    with pytest.raises(ConfigError) as refusal:
        study_of(tmp_path, GOOD).select_steps(["sweep", "swep"])
    refused.append(str(refusal.value))
    assert not any("\n" in each for each in refused)
    golden("\n".join(refused), {r"not a command .*": "not a command (WHY)"})
    with pytest.raises(ConfigError):
        study_of(tmp_path, "steps: [")
