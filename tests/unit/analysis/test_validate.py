"""Records that are not what they should be: one line each, never the end of a report."""

import pytest
from analysis.records.harvest import harvest
from analysis.records.validate import validate
from analysis.report import sentences
from analysis.table import as_text, combine

from tests.support.mutations import FEW, as_bytes, mutated, paths_of
from tests.support.records import make_record, make_rich_record, write_all

PATHS_AT_ONCE = 25


def write_files(folder, contents):
    for number, content in enumerate(contents):
        (folder / str(number)).mkdir(parents=True)
        (folder / str(number) / "record.json").write_bytes(content)


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "every"])
def test_any_strange_value_at_any_place_costs_its_record_at_most(tmp_path, step):
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
        assert len(paths_read) + len(found.passed_over) == found.num_files
        assert str(folder / "0" / "record.json") in paths_read
        assert all(str(folder) in line and "\n" not in line for line in found.passed_over)
        table = combine(found.rows)
        assert as_text(table)
        assert sentences.describe(table)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("world_size",), 0, "world_size: 0; allowed is a whole number from 1"),
        (("config", "data_size"), "text", "config.data_size: 'text'; allowed is a number from 0"),
        (("config", "backend"), [], "config.backend: a list of 0; allowed is an object"),
        (("config", "measure", "mode"), None, "config.measure.mode: null or absent; allowed is text"),
        (("cases",), {"a": 1}, "cases: an object of 1; allowed is a list of at least 0, each an object"),
        (("cases", 0, "blocks"), [0], "cases[0].blocks: allowed are numbers from 1 on, 400 together"),
        (("cases", 0, "blocks"), [400, 1], "cases[0].blocks: allowed are numbers from 1 on"),
        (("cases", 0, "samples_s"), [[1.0], [1.0, 2.0]], "cases[0].samples_s: allowed are equally many seconds"),
        (("cases", 0, "samples_s"), [[-1.0] * 400] * 2, "cases[0].samples_s: allowed are equally many seconds"),
        (("cases", 0, "samples_s"), [[0.0] * 400] * 2, "cases[0].samples_s: an iteration takes less than 1e-12 s"),
        (("cases", 0, "start_offsets_s"), [[0.0]] * 2, "cases[0].start_offsets_s: allowed are null, or"),
        (("cases", 0, "elapsed_s"), True, "cases[0].elapsed_s: True; allowed is a number from 0"),
        (("cases", 0, "parts"), ["a", "b", "c"], "cases[0].parts: a list of 3; allowed is an object of names"),
        (("environment", "gpus"), ["one"], "environment.gpus: a list of 1; allowed is a list"),
    ],
)  # fmt: skip
def test_a_refused_record_is_told_with_field_value_and_what_is_allowed(tmp_path, path, value, said):
    write_all(tmp_path, [make_record(2), mutated(make_record(), path, value)])
    found = harvest([tmp_path])
    [line] = found.passed_over
    assert line.startswith(f"{tmp_path}/1/record.json: ")
    assert said in line
    assert len(found.rows) == 1


def test_records_of_every_version_and_end_are_valid():
    old = make_record() | {"schema_version": 1}
    [case] = old["cases"]
    del case["blocks"]
    case["block_iterations"] = 4
    for record in (old, make_rich_record(), make_record(status="oom"), make_record(status="running", clock=None)):
        validate(record)
