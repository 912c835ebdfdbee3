"""Records that are not what they should be: one line each, never the end of a report."""

import pytest
from analysis.records.validate import validate
from analysis.screen.terminal import as_text
from analysis.table.combine import combine

from tests.support.mutations import ABSENT, FEW, as_bytes, mutated, paths_of
from tests.support.records import as_record, make_record, make_rich_record, write_all
from tests.support.reports import describe, harvest

PATHS_AT_ONCE = 25


def write_files(folder, contents):
    for number, content in enumerate(contents):
        (folder / str(number)).mkdir(parents=True)
        (folder / str(number) / "record.json").write_bytes(content)


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "every"])
def test_strange_value_costs_only_its_record(tmp_path, step):
    record = make_rich_record(samples=6)
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
        assert len(paths_read) + len(found.skipped) == found.num_files
        assert str(folder / "0" / "record.json") in paths_read
        assert all(str(folder) in line and "\n" not in line for line in found.skipped)
        table = combine(found.rows)
        assert as_text(table)
        assert describe(table)


def refusals(folder, record, damages):
    """What is said of the records of a folder, each with a value in a place where it may not be."""
    write_all(folder, [make_record(2.0), *(mutated(record, path, value) for path, value in damages)])
    found = harvest([folder])
    assert len(found.rows) == 1
    assert len(found.skipped) == len(damages)
    return "\n".join(line.replace(f"{folder}/", "") for line in found.skipped)


LIBRARY = {r"(Expected|Object) .* - at": "WHY at"}
"""What msgspec says differs from version to version, the place does not."""


def test_refusal_names_field_and_allowed_values(tmp_path, golden):
    damages = [
        (("world_size",), 0), (("config", "data_size"), "text"), (("config", "data_size"), -1),
        (("config", "backend"), []), (("config", "measure", "mode"), None), (("config", "seed"), ABSENT),
        (("cases",), []), (("cases", 0, "labels"), {"data_size": "text"}), (("cases", 0, "labels"), {"split": [3]}),
        (("cases", 0, "details"), {"ideal_s": True}), (("cases", 0, "details"), {"tokens_per_call": -1}),
        (("cases", 0, "blocks"), [0]), (("cases", 0, "blocks"), []), (("cases", 0, "blocks"), [700, 1]),
        (("cases", 0, "samples_s"), [[1.0], [1.0, 2.0]]), (("cases", 0, "samples_s"), [[-1.0] * 700] * 2),
        (("cases", 0, "samples_s"), [[0.0] * 700] * 2), (("cases", 0, "start_offsets_s"), [[0.0]] * 2),
        (("cases", 0, "baseline"), 1), (("environment", "gpus"), ["one"]),
    ]  # fmt: skip
    golden(refusals(tmp_path, make_record(), damages), LIBRARY)


def test_list_of_sizes_is_valid():
    """It is no column; the sizes of its cases are."""
    made = make_record()
    made["config"]["data_size"] = [1.0, 4.0]
    made["cases"][0]["labels"]["data_size"] = 4.0
    validate(as_record(made))


def test_records_of_every_status_are_valid():
    for record in (make_rich_record(), make_record(status="oom"), make_record(status="running", clock=None)):
        validate(as_record(record))
