"""Records that are not what they should be: one line each, never the end of a report."""

import pytest
from analysis.records.harvest import harvest
from analysis.records.validate import validate
from analysis.report import sentences
from analysis.table import combine
from analysis.terminal import as_text

from tests.support.mutations import ABSENT, FEW, as_bytes, mutated, paths_of
from tests.support.records import as_record, as_version_2, make_record, make_rich_record, write_all

PATHS_AT_ONCE = 25


def write_files(folder, contents):
    for number, content in enumerate(contents):
        (folder / str(number)).mkdir(parents=True)
        (folder / str(number) / "record.json").write_bytes(content)


@pytest.mark.parametrize("of_version", [dict, as_version_2], ids=["new", "old"])
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "every"])
def test_strange_value_costs_only_its_record(tmp_path, step, of_version):
    record = of_version(make_rich_record(samples=6))
    paths = list(paths_of(record))
    assert len(paths) > 100
    paths = paths[::step]
    for start in range(0, len(paths), PATHS_AT_ONCE):
        folder = tmp_path / str(start)
        some = paths[start : start + PATHS_AT_ONCE]
        changed = [mutated(record, path, value) for path in some for value in FEW]
        contents = {as_bytes(each) for each in changed} - {as_bytes(record)}
        write_files(folder, [as_bytes(record), *sorted(contents)])
        found = harvest([folder])
        assert found.num_files == len(contents) + 1
        paths_read = {row["path"] for row in found.rows}
        assert len(paths_read) + len(found.passed_over) == found.num_files
        assert str(folder / "0" / "record.json") in paths_read
        assert all(str(folder) in line and "\n" not in line for line in found.passed_over)
        table = combine(found.rows)
        assert as_text(table)
        assert sentences.describe(table)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("world_size",), 0, "Expected `int` >= 1 - at `$.world_size`"),
        (("config", "data_size"), "text", "config.data_size: 'text'; allowed is a number from 0"),
        (("config", "data_size"), -1, "config.data_size: -1; allowed is a number from 0"),
        (("config", "backend"), [], "Expected `object`, got `array` - at `$.config.backend`"),
        (("config", "measure", "mode"), None, "Expected `str`, got `null` - at `$.config.measure.mode`"),
        (("config", "seed"), ABSENT, "missing required field `seed` - at `$.config`"),
        (("cases",), {"a": 1}, "Expected `array`, got `object` - at `$.cases`"),
        (("cases",), [], "cases: allowed is at least one where the status is ok"),
        (("cases", 0, "labels"), {"data_size": "text"}, "cases[0].labels.data_size: 'text'; allowed is a number"),
        (("cases", 0, "details"), {"ideal_s": True}, "cases[0].details.ideal_s: True; allowed is a number from -1e+18"),
        (("cases", 0, "details"), {"tokens_per_call": -1}, "details.tokens_per_call: -1; allowed is a number from 0"),
        (("cases", 0, "labels"), {"split": [3]}, "got `array` - at `$.cases[0].labels[...]`"),
        (("cases", 0, "blocks"), [0], "Expected `int` >= 1 - at `$.cases[0].blocks[0]`"),
        (("cases", 0, "blocks"), [], "cases[0].blocks: allowed are numbers from 1 on, 400 together"),
        (("cases", 0, "blocks"), [400, 1], "cases[0].blocks: allowed are numbers from 1 on"),
        (("cases", 0, "samples_s"), [[1.0], [1.0, 2.0]], "cases[0].samples_s: allowed are equally many seconds"),
        (("cases", 0, "samples_s"), [[-1.0] * 400] * 2, "Expected `float` >= 0.0 - at `$.cases[0].samples_s[0][0]`"),
        (("cases", 0, "samples_s"), [[0.0] * 400] * 2, "cases[0].samples_s: an iteration takes less than 1e-12 s"),
        (("cases", 0, "start_offsets_s"), [[0.0]] * 2, "cases[0].start_offsets_s: allowed are null, or"),
        (("cases", 0, "elapsed_s"), True, "Expected `float`, got `bool` - at `$.cases[0].elapsed_s`"),
        (("cases", 0, "baseline"), 1, "cases[0] refers to case 1, which is missing"),
        (("environment", "gpus"), ["one"], "Expected `object`, got `str` - at `$.environment.gpus[0]`"),
    ],
)  # fmt: skip
def test_refusal_names_field_and_allowed_values(tmp_path, path, value, said):
    write_all(tmp_path, [make_record(2), mutated(make_record(), path, value)])
    found = harvest([tmp_path])
    [line] = found.passed_over
    assert line.startswith(f"{tmp_path}/1/record.json: ")
    assert said in line
    assert len(found.rows) == 1


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("world_size",), 0, "Expected `int` >= 1 - at `$.world_size`"),
        (("config", "backend"), [], "Expected `object`, got `array` - at `$.config.backend`"),
        (("cases",), {"a": 1}, "Expected `array`, got `object` - at `$.cases`"),
        (("cases", 0, "parts"), ["a", "b", "c"], "Expected `array` of length <= 2 - at `$.cases[0].parts`"),
        (("cases", 0, "samples_s"), [[1.0], [1.0, 2.0]], "cases[0].samples_s: allowed are equally many seconds"),
        (("environment", "available_cores"), ABSENT, "missing required field `available_cores` - at `$.environment`"),
        (("environment", "available_cores"), "2", "Expected `int`, got `str` - at `$.environment.available_cores`"),
        (("agents",), "text", "Expected `array | null`, got `str` - at `$.agents`"),
    ],
)  # fmt: skip
def test_refused_old_record_is_named(tmp_path, path, value, said):
    write_all(tmp_path, [mutated(as_version_2(make_record()), path, value)])
    [line] = harvest([tmp_path]).passed_over
    assert line.startswith(f"{tmp_path}/0/record.json: ")
    assert said in line


def test_list_of_sizes_is_valid():
    """It is no column; the sizes of its cases are."""
    made = make_record()
    made["config"]["data_size"] = [1.0, 4.0]
    made["cases"][0]["labels"]["data_size"] = 4.0
    validate(as_record(made))


def test_records_of_every_version_are_valid():
    old = as_version_2(make_record()) | {"schema_version": 1}
    [case] = old["cases"]
    del case["blocks"]
    case["block_iterations"] = 4
    for record in (old, make_rich_record(), make_record(status="oom"), make_record(status="running", clock=None)):
        validate(as_record(record))
