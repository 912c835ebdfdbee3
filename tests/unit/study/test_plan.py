"""Studies as their YAML describes them."""

import pytest
from benchkit.errors import ConfigError
from benchkit.study.plan import Step, read_study

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
    values = study.values({"size": "8"}) | {"out": "/o"}
    assert study.steps[0].arguments(values) == ["+suite=allreduce", "data_size=8", "x=${now:%Y}"]


def test_path_below_folder_is_quoted_for_hydra_alone(tmp_path):
    values = {"out": f"{tmp_path}/it's"}
    (tmp_path / "it's").mkdir()
    sweep = Step("s", "benchkit", ("lut={out}/t.csv", "a=1"))
    assert sweep.arguments(values) == [f"lut='{tmp_path}/it\\'s/t.csv'", "a=1"]
    assert sweep.arguments(values, only_existing=True) == ["a=1"]
    (tmp_path / "it's" / "t.csv").touch()
    assert len(sweep.arguments(values, only_existing=True)) == 2
    assert Step("s", "analysis", ("{out}/t",)).arguments(values) == [f"{tmp_path}/it's/t"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("steps: {}", "one step at least"),
        ("step:\n  a: benchkit", "allowed are the keys parameters and steps"),
        ("steps:\n  a: rm -rf x", "rm: a command begins with benchkit or analysis"),
        ("steps:\n  ../a: benchkit", "allowed are small letters, digits and _"),
        ("steps:\n  a: benchkit x={y}", "{y}: no such parameter; allowed are out"),
        ("steps:\n  a: benchkit 'x", "not a command"),
        ("steps: [", "not readable"),
    ],
)
def test_wrong_file_gets_one_line(tmp_path, text, line):
    with pytest.raises(ConfigError) as refusal:
        study_of(tmp_path, text)
    assert line in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_unknown_names_get_nearest(tmp_path):
    with pytest.raises(ConfigError, match=r"study=mime: no such study; did you mean mine\?"):
        read_study("mime", [tmp_path / "mine.yaml"])
    with pytest.raises(ConfigError, match=r"sise=3: no parameter of study mine; did you mean size\?"):
        study_of(tmp_path, GOOD).values({"sise": "3"})
