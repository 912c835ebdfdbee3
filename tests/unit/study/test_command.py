"""A study runs its steps in order, and goes on where it was cut off."""

import json
import re
from pathlib import Path

import pytest
from benchkit import study as command
from benchkit import study as steps
from benchkit.errors import ConfigError, UnknownKey
from benchkit.sweep.forecast import Total
from benchkit.sweep.resume import DRY_RUN
from launch.launcher_env import LaunchError

from tests.support.records import make_record, write_plan

YAML = """
parameters:
  size: 1
steps:
  first: benchkit +suite=allreduce data_size={size}
  table: analysis {out}/first --output-dir {out}/table
  second: benchkit +suite=allreduce lut={out}/table/t.csv
"""


class Modules:
    """Stands for the processes of the steps: remembers their arguments; its sweeps have one point each."""

    def __init__(self, out):
        self.out, self.calls, self.codes, self.statuses = out, [], {}, {}
        self.writes_table = True
        self.check = lambda words: None

    def __call__(self, module, arguments):
        name = self.name_of(arguments)
        self.calls.append((name, arguments))
        code = self.codes.pop(name, 0)
        if isinstance(code, BaseException):
            raise code
        if module == "benchkit":
            self.sweep(name, self.statuses.get(name, "ok"))
        elif self.writes_table and not code:
            table = folder_of(self) / "table" / "t.csv"
            table.parent.mkdir(exist_ok=True)
            table.touch()
        return code

    def names(self):
        return [name for name, _ in self.calls]

    def name_of(self, arguments):
        return next(name for name in ("second", "table", "first") if any(self.is_of(name, each) for each in arguments))

    def is_of(self, name, argument):
        return argument.rstrip("'").endswith(f"/{name}")

    def sweep(self, name, status):
        folder = next(self.out.glob("outputs/*_mine")) / name
        (folder / "0").mkdir(parents=True, exist_ok=True)
        write_plan(folder, ["k"])
        (folder / "0" / "record.json").write_text(json.dumps(make_record(status=status)))


@pytest.fixture
def modules(tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text(YAML)
    monkeypatch.chdir(tmp_path)
    found = Modules(tmp_path)
    monkeypatch.setattr(steps, "run_module", found)
    monkeypatch.setattr(command, "run_module", found)
    monkeypatch.setattr(command, "check", lambda words: found.check(words))
    return found


def study(modules, *arguments):
    return command.main(["study=mine", *arguments], [modules.out / "mine.yaml"])


def folder_of(modules):
    return next(modules.out.glob("outputs/*_mine"))


def test_steps_run_in_order_in_their_folders(modules, capsys, golden):
    assert study(modules, "size=3") == 0
    assert modules.names() == ["first", "table", "second"]
    first, table, second = (arguments for _, arguments in modules.calls)
    out = folder_of(modules)
    assert first == ["+suite=allreduce", "data_size=3", "--resume", f"{out}/first", "--retry", "none"]
    assert table == [f"{out}/first", "--output-dir", f"{out}/table"]
    assert f"lut={out}/table/t.csv" in second
    golden(capsys.readouterr().out, {r"[^ ]*/outputs/[^/ ]*_mine": "OUT"})
    assert (modules.out / "outputs" / "latest").resolve() == out


def test_interrupted_study_goes_on(modules, capsys):
    modules.statuses["first"], modules.codes["first"] = "interrupted", 130
    assert study(modules, "size=3") == 130
    assert modules.names() == ["first"]
    modules.statuses.clear()
    modules.codes["second"] = KeyboardInterrupt()
    out = folder_of(modules)
    with pytest.raises(KeyboardInterrupt):
        study(modules, "--resume", str(out))  # with the parameters that it began with
    assert modules.calls[1][1][-4:] == ["--resume", f"{out}/first", "--retry", "none"]
    assert f"--resume {out}" in capsys.readouterr().out
    assert command.is_study(["--resume", str(out)])
    assert command.main(["--resume", str(out)], [modules.out / "mine.yaml"]) == 0
    assert modules.names() == ["first", "first", "table", "second", "second"]
    assert study(modules, "--resume", str(out)) == 0
    assert len(modules.calls) == 5


def test_study_of_user_goes_on_from_elsewhere(modules, monkeypatch):
    (modules.out / "conf" / "study").mkdir(parents=True)
    (modules.out / "mine.yaml").rename(modules.out / "conf" / "study" / "mine.yaml")
    files = [modules.out / "conf" / "study" / "mine.yaml"]
    modules.codes["second"] = 1
    modules.statuses["second"] = "interrupted"
    command.main(["study=mine", "--config-dir", "conf"], files)
    modules.statuses.clear()
    (modules.out / "elsewhere").mkdir()
    monkeypatch.chdir(modules.out / "elsewhere")
    assert command.main(["--resume", str(folder_of(modules))], []) == 0
    assert modules.names() == ["first", "table", "second", "second"]
    assert all(words[1] == str(modules.out / "conf") for name, words in modules.calls if name != "table")
    files[0].parent.parent.rename(modules.out / "moved")
    with pytest.raises(ConfigError):
        command.main(["--resume", str(folder_of(modules))], [])


def test_failed_point_keeps_no_step_from_running(modules):
    modules.statuses["first"], modules.codes["first"] = "error", 1
    assert study(modules) == 1
    assert modules.names() == ["first", "table", "second"]
    modules.codes["table"] = 1  # without its table there is no next step
    assert study(modules, "--resume", str(folder_of(modules)), "--retry", "failed") == 1
    assert modules.names()[3:] == ["first", "table"]
    assert modules.calls[3][1][-2:] == ["--retry", "failed"]


def test_step_without_its_input_says_which_and_how_to_go_on(modules, capsys, golden):
    modules.statuses["first"], modules.writes_table = "unavailable", False
    assert study(modules) == 1
    assert modules.names() == ["first", "table"]
    out = folder_of(modules)
    golden(capsys.readouterr().out, {re.escape(str(out)): "OUT"})
    modules.statuses.clear()
    modules.writes_table = True
    assert study(modules, "--resume", str(out), "--retry", "all") == 0
    assert modules.names()[2:] == ["first", "table", "second"]


def only_seen_by_second(words):
    if "seen=1" in words and not any(word.startswith("data_size") for word in words):
        return
    if set(words) & {"seen=1", "seize=1"}:
        raise UnknownKey("no such key")


def test_override_goes_to_the_sweeps_that_have_its_key(modules):
    modules.check = only_seen_by_second
    assert study(modules, "seen=1") == 0
    out = folder_of(modules)
    taken = {name: "seen=1" in words for name, words in modules.calls}
    assert taken == {"first": False, "table": False, "second": True}
    assert study(modules, "--resume", str(out), "--retry", "all") == 0
    assert "seen=1" in modules.calls[-1][1]
    modules.check = lambda words: None
    with pytest.raises(ConfigError):
        study(modules, "data_size=2", "--resume", str(out))


def test_one_command_begins_a_study_and_goes_on(modules):
    again = ["--resume", "outputs/own_mine", "--retry", "failed"]
    modules.codes["table"] = 1
    assert study(modules, *again) == 1
    assert modules.names() == ["first", "table"]
    assert study(modules, *again) == 0
    assert modules.names() == ["first", "table", "first", "table", "second"]
    assert (modules.out / "outputs" / "own_mine" / "study.json").exists()


def test_named_steps_run_alone_and_again(modules):
    assert study(modules, "--steps", "first") == 0
    assert modules.names() == ["first"]
    out = str(folder_of(modules))
    assert study(modules, "--steps", "table,first", "--resume", out) == 0
    assert modules.names() == ["first", "first", "table"]
    assert study(modules, "--resume", out) == 0
    assert modules.names() == ["first", "first", "table", "second"]


@pytest.mark.parametrize("line", ["size", "--retry failed", "--resume plain", "seize=1", "--steps third"])
def test_wrong_command_line_runs_nothing(modules, monkeypatch, line):
    modules.check = only_seen_by_second
    (modules.out / "plain").mkdir()
    write_plan(modules.out / "plain", ["k"])  # a sweep, not a study
    with pytest.raises(ConfigError):
        study(modules, *line.split())
    monkeypatch.setenv("RANK", "1")  # as a launcher whose processes do not join
    monkeypatch.setenv("WORLD_SIZE", "2")
    modules.check = lambda words: None
    with pytest.raises(LaunchError):
        study(modules)
    assert not modules.calls
    assert not (modules.out / "outputs").exists()


def test_wrong_step_runs_nothing(modules):
    def check(words):
        if "data_size=1" not in words:
            raise ConfigError("wrong")

    modules.check = check
    with pytest.raises(ConfigError, match="step second: wrong"):
        study(modules)
    assert not modules.calls


def test_changed_parameter_is_refused(modules):
    study(modules, "size=3")
    with pytest.raises(ConfigError, match=r"size=4: .* size=3"):
        study(modules, "size=4", "--resume", str(folder_of(modules)))


@pytest.mark.parametrize(
    ("first", "second", "code", "expected"),
    [
        (["ok"], ["ok"], 0, 0),
        (["unavailable"], ["ok"], 1, 0),  # as the run: some points are measured
        (["unavailable"], ["skipped"], 1, 1),
        (["ok"], ["timeout"], 1, 1),
        (["ok"], ["ok"], 2, 2),
    ],
)
def test_dry_run_shows_all_steps_and_returns_code_of_run(modules, capsys, first, second, code, expected):
    forecasts = iter([first, second])

    def name_of(arguments):
        path = arguments.pop().removeprefix(f"{DRY_RUN}=")
        Total(next(forecasts), 1.0, 2.0).write(Path(path))
        return "dry"

    modules.name_of = name_of
    modules.codes["dry"] = code  # of the first step alone
    modules.sweep = lambda name, status: None
    assert study(modules, "--dry-run") == expected
    assert [arguments for _, arguments in modules.calls] == [
        ["+suite=allreduce", "data_size=1"],
        ["+suite=allreduce"],  # without the file that is yet to come
    ]
    assert "step 3 of 3: second" in capsys.readouterr().out
    assert not (modules.out / "outputs").exists()
