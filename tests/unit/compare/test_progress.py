"""Which runs count, which one is next and when a comparison ends, with runs that nobody made."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from analysis.compare.pairs import PairJudge
from benchkit.compare import session
from benchkit.compare.arms import Arm
from benchkit.compare.command import (
    ArmRun,
    CompareOptions,
    ComparisonPlan,
    claim_new,
    parse_plan,
    read_floor,
    read_plan,
    runs_of_round,
    write_plan,
)
from benchkit.compare.session import ComparisonProgress, RunCutOff, RunFailed
from benchkit.errors import ConfigError
from benchkit.statistics.design import order_of_runs

from tests.support.records import make_record, write_all

ARMS = [Arm(text="plain"), Arm(text="env:A=1", environment={"A": "1"}), Arm(text="set:a=2", overrides=["a=2"])]
SIZES = (1.0, 10.0)
NOISY = 1.03


def new_plan(pairs: int | None = 6, num_arms: int = 2, max_pairs: int = 20, **changes: object) -> ComparisonPlan:
    order = order_of_runs(pairs or max_pairs, 7, num_arms)
    plan = ComparisonPlan(
        id="c0ffee", arms=ARMS[:num_arms], overrides=["+suite=allreduce", "-m", "data_size=1,10"],
        options=CompareOptions(pairs, max_pairs, 0.05, "p25"), seed=7, floor={}, order=order,
    )  # fmt: skip
    return replace(plan, **changes)


def seconds_of(turn: ArmRun, slower: float) -> float:
    """Of a run: each round has its own pace, which both arms share, and some noise; much where `slower` is NOISY."""
    pace = 1 + 0.2 * (turn.number % 3)
    noise = 0.1 if slower == NOISY else 0.002
    return 1e-3 * pace * (1 + noise * ((turn.number + turn.arm) % 3)) * (slower if turn.arm else 1)


Slower = float | dict[float, float]
"""How many times as long the candidate takes: at SIZES, or by size."""


def make_run(folder: Path, turn: ArmRun, slower: Slower) -> None:
    """Writes the records of a run."""
    records = []
    for size, ratio in (slower if isinstance(slower, dict) else dict.fromkeys(SIZES, slower)).items():
        typed = ["+suite=allreduce", f"data_size={size:g}", f"seed={turn.seed}"]
        records.append(make_record(size, seconds=seconds_of(turn, ratio), overrides=typed))
    write_all(folder / "runs" / turn.name, records)


def add_to_records(run: Path, **changes: object) -> None:
    for path in run.glob("*/record.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def go_on(
    plan: ComparisonPlan, folder: Path, slower: Slower = 1.0, most: int = 1000,
    change: Callable[[ArmRun, Path], None] = lambda turn, run: None,
) -> tuple[int, int | None]:  # fmt: skip
    """Makes runs until the end, or the given number of them; how many there were, and the exit code."""
    progress = ComparisonProgress(plan, folder, PairJudge(plan))
    made = 0
    while made < most and (turn := progress.next_turn()):
        make_run(folder, turn, slower)
        change(turn, folder / "runs" / turn.name)
        progress.add(turn, 0.5, "")
        made += 1
    return made, progress.end() if made < most else None


def words(folder: Path) -> list[str]:
    result = json.loads((folder / "compare_result.json").read_text())
    return [point["word"] for point in result["points"]]


@pytest.mark.parametrize(
    ("slower", "word", "code"), [(1.0, "SAME", 0), (1.1, "SLOWER", 1), (1 / 1.1, "FASTER", 0), (NOISY, "UNCLEAR", 3)]
)
def test_a_comparison_ends_with_its_verdict(tmp_path, capsys, slower, word, code):
    assert go_on(new_plan(8), tmp_path, slower) == (2 * (8 + 1), code)  # with one A/A pair
    assert words(tmp_path) == [word, word]
    rounds = capsys.readouterr().out.splitlines()[:18]
    assert [line.startswith(f"[round {1 + i // 2}, ") for i, line in enumerate(rounds)] == [True] * 18
    assert sum("A/A pair] plain" in line for line in rounds) == 2


def test_verdict_below_noise_floor_is_marked(tmp_path, capsys):
    plan = new_plan()
    floor = {"id": "c0ffee", "age_s": 1.0, "sigma_run": 0.1, "at": "all_reduce 1MiB"}
    progress = ComparisonProgress(plan, tmp_path, PairJudge(plan))
    while turn := progress.next_turn():
        make_run(tmp_path, turn, 1.2)
        add_to_records(tmp_path / "runs" / turn.name, noise_floor=floor)
        progress.add(turn, 0.5, "")
    assert progress.end() == 1
    out = capsys.readouterr().out
    assert (out.count("SLOWER (below the noise floor"), out.count("± 32 %)")) == (2, 2)
    assert go_on(plan, tmp_path / "unknown")[1] == 0
    assert "no noise floor" in capsys.readouterr().out


def test_half_pair_never_counts(tmp_path):
    plan = new_plan()
    assert go_on(plan, tmp_path, most=5) == (5, None)
    cut_off = ComparisonProgress(plan, tmp_path, PairJudge(plan)).next_turn()
    assert (cut_off.number, cut_off.position) == (3, 1)
    make_run(tmp_path, cut_off, 100.0)  # its records are there, but nobody counted it
    session.set_aside(tmp_path / "runs" / cut_off.name)
    assert go_on(plan, tmp_path) == (2 * 7 - 5, 0)
    assert (tmp_path / "unfinished" / f"{cut_off.name}_1" / "0" / "record.json").exists()
    assert go_on(plan, tmp_path) == (0, 0)


def test_auto_ends_at_answering_look(tmp_path, capsys):
    assert go_on(new_plan(None), tmp_path / "clear", 1.2) == (2 * 10 + 2 * 2, 1)  # two A/A pairs among them
    assert "pair 10 of up to 20]" in capsys.readouterr().out
    made, code = go_on(new_plan(None), tmp_path / "unclear", NOISY)
    assert (made, code) == (2 * 20 + 2 * 4, 3)
    assert capsys.readouterr().out.count("verdict") == 2  # at both looks


def test_several_arms_are_held_against_the_first(tmp_path, capsys):
    made, code = go_on(new_plan(10, num_arms=3), tmp_path, 1.1)
    assert (made, code) == (3 * 10 + 2 * 2, 1)
    result = json.loads((tmp_path / "compare_result.json").read_text())
    assert [(point["arm"], point["name"]) for point in result["points"]] == [
        (arm, f"data_size={size}") for arm in ("env:A=1", "set:a=2") for size in (1, 10)
    ]
    assert [mean["arm"] for mean in result["means"]] == ["env:A=1", "set:a=2"]
    assert "\narm " in capsys.readouterr().out  # a column that tells the rows apart
    assert result["control"]["num_pairs"] == 2


def ended(statuses: dict[tuple[int, int], str], point: int = 1) -> Callable[[ArmRun, Path], None]:
    """Lets a point of runs have ended otherwise, by the number of the pair and the role."""

    def change(turn: ArmRun, run: Path) -> None:
        if status := statuses.get((turn.number, turn.role)):
            path = run / str(point) / "record.json"
            error = {"message": f"it went {status}"}
            path.write_text(json.dumps(json.loads(path.read_text()) | {"status": status, "error": error, "cases": []}))

    return change


def in_pairs(*numbers: int, **statuses: str) -> dict[tuple[int, int], str]:
    roles = {"baseline": 0, "candidate": 1}
    return {(number, roles[arm]): status for arm, status in statuses.items() for number in numbers}


PAIRS = (1, 2, 3, 4, 6, 7, 8, 9)
"""The fifth is an A/A pair."""


@pytest.mark.parametrize(
    ("statuses", "word", "code"),
    [
        (in_pairs(4, candidate="crash"), "FAILED", 1),
        (in_pairs(*PAIRS, candidate="unavailable"), "FAILED", 1),
        (in_pairs(4, candidate="skipped"), "FAILED", 1),
        (in_pairs(*PAIRS, baseline="crash"), "FIXED", 0),
        (in_pairs(4, baseline="crash"), "SAME", 0),
        (in_pairs(1, baseline="crash") | in_pairs(4, 6, candidate="crash"), "FAILED", 1),
        (in_pairs(*PAIRS[:4], baseline="oom") | in_pairs(*PAIRS[4:], candidate="oom"), "UNCLEAR", 3),
        (in_pairs(*PAIRS, baseline="crash", candidate="crash"), "NOT COMPARED", 0),
        (in_pairs(*PAIRS, baseline="skipped", candidate="skipped"), "NOT COMPARED", 0),
        (in_pairs(*PAIRS, baseline="skipped", candidate="crash"), "FAILED", 1),
    ],
)
def test_candidate_that_fails_more_often_fails(tmp_path, capsys, statuses, word, code):
    assert go_on(new_plan(8), tmp_path, change=ended(statuses))[1] == code
    assert words(tmp_path)[1] == word
    out = capsys.readouterr().out
    for status in set(statuses.values()):
        assert status in out  # no verdict on the pairs that are left without a word


def test_texts_of_a_comparison(tmp_path, capsys, golden):
    """What is printed at the end, and what `--dir` holds for a pull request and for a CI."""
    each_pair = range(1, 15)  # with those of A/A
    oom, crash = ended(in_pairs(4, candidate="oom"), 4), ended(in_pairs(*each_pair, baseline="crash"), 5)
    late = ended(in_pairs(*each_pair, baseline="timeout", candidate="timeout"), 6)

    def change(turn: ArmRun, run: Path) -> None:
        for each in (oom, crash, late):
            each(turn, run)
        if turn.arm:  # at the third size some calls take longer
            path = run / "2" / "record.json"
            record = json.loads(path.read_text())
            for row in record["cases"][0]["samples_s"]:
                row[::40] = [3 * sample for sample in row[::40]]
            path.write_text(json.dumps(record))

    slower = {1: 1.1, 10: 1 / 1.1, 100: 1.0, 1000: NOISY, 2000: 1.0, 3000: 1.0, 5000: 1.0}
    assert go_on(new_plan(12, floor={"data_size=10": 0.2}), tmp_path, slower, change=change)[1] == 1
    assert words(tmp_path) == ["SLOWER", "UNCLEAR", "SAME", "UNCLEAR", "FAILED", "FIXED", "NOT COMPARED"]
    golden(capsys.readouterr().out.rpartition("[round ")[2].partition("\n")[2])
    points = json.loads((tmp_path / "compare_result.json").read_text())["points"]
    assert points[4]["candidate_s"].count(None) == 1  # JSON has no NaN
    assert (tmp_path / "compare.md").read_text().count("\n| ") == 1 + len(slower)
    junit = (tmp_path / "junit.xml").read_text()
    golden(junit)
    cases = ElementTree.fromstring(junit)
    assert [[child.tag for child in case] for case in cases] == [
        ["failure"], ["skipped"], [], ["skipped"], ["failure"], [], ["skipped"],
    ]  # fmt: skip
    assert [cases.get(name) for name in ("tests", "failures", "skipped")] == ["7", "2", "3"]


def test_nothing_measured_is_too_little(tmp_path):
    def change(turn: ArmRun, run: Path) -> None:
        add_to_records(run, status="crash", cases=[])

    assert go_on(new_plan(), tmp_path, change=change)[1] == 3
    assert words(tmp_path) == ["NOT COMPARED", "NOT COMPARED"]


EVEN, ODD = {"strategy": "even"}, {"strategy": "odd"}
SHORT, LONG = {"timing": "latency"}, {"timing": "back_to_back"}


@pytest.mark.parametrize(
    ("baseline", "candidate", "found", "code"),
    [
        ([EVEN, ODD], [EVEN], ["SAME", "FAILED"], 1),
        ([EVEN], [EVEN, ODD], ["SAME", "NEW"], 0),
        ([LONG, SHORT], [LONG], ["SAME", "NOT COMPARED"], 0),  # calls are not short in every run
        ([LONG], [LONG, SHORT], ["SAME", "NEW"], 0),
    ],
)
def test_each_case_is_missed(tmp_path, baseline, candidate, found, code):
    def change(turn: ArmRun, run: Path) -> None:
        for path in run.glob("*/record.json"):
            record = json.loads(path.read_text())
            record["cases"] = [case | {"labels": labels} for case in record["cases"]
                               for labels in (candidate if turn.arm else baseline)]  # fmt: skip
            path.write_text(json.dumps(record))

    assert go_on(new_plan(), tmp_path, change=change)[1] == code
    assert words(tmp_path) == found * 2


def test_case_left_out_for_time_is_told_so(tmp_path):
    """A suite times the latency of short calls only: where they are long, nothing is missing."""

    def change(turn: ArmRun, run: Path) -> None:
        for path in run.glob("*/record.json"):
            record = json.loads(path.read_text())
            timed = (LONG,) if turn.arm else (LONG, SHORT)
            record["cases"] = [case | {"labels": labels} for case in record["cases"] for labels in timed]
            path.write_text(json.dumps(record))

    go_on(new_plan(), tmp_path, change=change)
    result = json.loads((tmp_path / "compare_result.json").read_text())
    reasons = [point["reason"] for point in result["points"] if point["word"] == "NOT COMPARED"]
    assert reasons == ["in 6 of 6 pairs: left out"] * 2


def test_case_without_labels_stands_for_all(tmp_path):
    """A job that does not fit has one case, without labels."""

    def change(turn: ArmRun, run: Path) -> None:
        for path in run.glob("*/record.json"):
            record = json.loads(path.read_text())
            [case] = record["cases"]
            gone = case | {"status": "skipped", "reason": "does not fit", "samples_s": [], "start_offsets_s": None}
            record["cases"] = [gone] if turn.arm else [case | {"labels": labels} for labels in (SHORT, LONG)]
            record["status"] = "skipped" if turn.arm else "ok"
            path.write_text(json.dumps(record))

    assert go_on(new_plan(), tmp_path, change=change)[1] == 1
    assert words(tmp_path) == ["FAILED"] * 4


def test_arms_with_other_points_are_refused(tmp_path):
    plan = new_plan()
    progress = ComparisonProgress(plan, tmp_path, PairJudge(plan))
    for slower in ({1: 1.0, 10: 1.0}, {1: 1.0}):
        turn = progress.next_turn()
        make_run(tmp_path, turn, slower)
        progress.add(turn, 0.5, "")
    with pytest.raises(ConfigError):
        progress.next_turn()


def test_run_counts_when_points_ended(tmp_path):
    turn = runs_of_round(1, new_plan().order[0])[0]
    folder = tmp_path / "runs" / turn.name
    with pytest.raises(ConfigError, match=r"^plain: .*No module named benchkit .*001-.\.log"):
        session.mark_counted(ARMS[0], folder, 1.0, "No module named benchkit")
    write_all(folder, [make_record(), make_record(status="interrupted")])
    with pytest.raises(RunCutOff, match=r"^plain: 1 of 2 "):
        session.mark_counted(ARMS[0], folder, 1.0, "")
    assert {path.name for path in folder.iterdir()} == {"0", "1"}  # it does not count
    folder = tmp_path / "runs" / "002-0"
    write_all(folder, [make_record(status="crash"), make_record(status="interrupted")])
    with pytest.raises(RunFailed) as error:
        session.mark_counted(ARMS[0], folder, 1.0, "")
    assert not isinstance(error.value, RunCutOff)


def test_exit_codes_of_runs_have_their_meaning(tmp_path):
    session.require_end(0, "", ARMS[0], tmp_path)
    session.require_end(1, "a point failed", ARMS[0], tmp_path)
    with pytest.raises(ConfigError, match=r"^env:A=1: no such key$"):
        session.require_end(2, "benchkit: no such key", ARMS[1], tmp_path)
    with pytest.raises(RunFailed, match=r"^plain: .*-9: last words"):
        session.require_end(-9, "last words", ARMS[0], tmp_path)


def test_a_plan_is_read_as_it_was_written(tmp_path):
    plan = new_plan(num_arms=3)
    claim_new(tmp_path / "new")
    write_plan(plan, tmp_path / "new")
    assert read_plan(tmp_path / "new") == plan == parse_plan(plan.to_json())
    with pytest.raises(ConfigError, match=r"--resume"):
        claim_new(tmp_path / "new")
    os.chmod(tmp_path / "new" / "compare.json", 0o666)
    with pytest.raises(ConfigError):  # others may write it, and it names programs
        read_plan(tmp_path / "new")


def test_floor_comes_from_identical_code(tmp_path):
    go_on(new_plan(8), tmp_path, 1.0)
    floor = read_floor(tmp_path / "compare_result.json")
    assert floor == pytest.approx({"data_size=1": 0.004, "data_size=10": 0.004}, abs=0.002)
    below = new_plan(8, floor={"data_size=1": 0.2, "data_size=10": 0.01})
    assert go_on(below, tmp_path / "below", 1.1)[1] == 1
    assert words(tmp_path / "below") == ["UNCLEAR", "SLOWER"]


def test_runs_start_where_comparison_was_typed(tmp_path):
    """Relative paths of the command line, as of --config-dir, are relative to it, wherever the comparison goes on."""
    places = []
    tree = Arm(text="tree:/tree", folder="/tree")
    for started_in in (str(tmp_path), "", str(tmp_path / "gone")):
        plan = parse_plan(new_plan(started_in=started_in, arms=[ARMS[0], tree]).to_json())
        for turn in runs_of_round(1, plan.order[0]):
            places.append(session.program_of(plan, replace(turn, arm=turn.role), tmp_path / "run").folder)
    assert [place for place in places if place != "/tree"] == [str(tmp_path), None, None]


def test_what_a_run_prints_goes_through_no_link(tmp_path):
    folder, victim = tmp_path / "runs" / "001-0", tmp_path / "victim"
    victim.write_text("mine")
    folder.parent.mkdir()
    session.log_path(folder).symlink_to(victim)
    with session.log_of(folder, is_first=True) as log:
        log.write(b"words")
    assert victim.read_text() == "mine"
    assert session.log_path(folder).read_text() == "words"


def test_folder_of_runs_may_be_no_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="runs"):
        session.set_aside(tmp_path / "runs" / "001-0")


def of_question(turn: ArmRun, run: Path) -> None:
    """Gives each record of a run the labels of the suite that asks for bus bandwidth."""
    for path in run.glob("*/record.json"):
        record = json.loads(path.read_text())
        for case in record["cases"]:
            case["labels"] = {"timing": "back_to_back"}
        record["config"]["suite"] = record["suite"] = "collective"
        path.write_text(json.dumps(record))


def test_answer_has_the_metric_and_the_words_of_the_question(tmp_path, capsys):
    """The largest change leads, with its ends and its figures; points stand in the order of the work."""
    slower = {100.0: 1.0, 10.0: 1.5, 1.0: 1 / 1.25}
    assert go_on(new_plan(12), tmp_path, slower, change=of_question)[1] == 1
    points = json.loads((tmp_path / "compare_result.json").read_text())["points"]
    assert [point["label"] for point in points] == ["1 MiB", "10 MiB", "100 MiB"]
    assert next(point["name"] for point in points).startswith("data_size=1 ")
    assert {(point["metric"], point["unit"]) for point in points} == {("busbw", "GB/s")}
    first = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("SLOWER"))
    assert first.startswith("SLOWER by 50 % (")
    # 10 MiB by ms, over the median pace of 1.2 and the lower quartile of ± 10 %
    assert " at 10 MiB: 9.18 → 6.11 GB/s busbw; " in first
    assert first.endswith("1 other point FASTER; 1 other point unchanged within 5 %")
