"""Reports of records damaged at random: whatever a file holds, no command ends with a traceback."""

import contextlib
import io
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from analysis.cli import main
from analysis.records.harvest import harvest
from analysis.screen.terminal import as_text
from analysis.table.combine import combine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.entries.report import style
from tests.support.imports import SAMPLES
from tests.support.mutations import STRANGE, as_bytes, mutated, paths_of
from tests.support.records import make_record, make_rich_record, write_all
from tests.support.reports import describe

SUITES = ("collective", "auto_shard", "ring_attention", "matmul_lut", "tp_columnwise", "transformer")
OUTPUTS = ("nccl_tests_all_gather.json", "nccl_tests_all_reduce.txt", "osu_allreduce.txt")
RECORD = make_rich_record(samples=6)
GOOD = make_record(data_size=10)
PLAIN = {"deadline": None, "derandomize": True, "database": None}
"""The same examples in every run, and no judgement on time."""

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=20),
)
values = st.one_of(
    st.sampled_from(STRANGE),
    st.recursive(
        scalars,
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)),
        max_leaves=8,
    ),
)


def changes_of(record):
    return st.lists(st.tuples(st.sampled_from(list(paths_of(record))), values), min_size=1, max_size=3)


changes = changes_of(RECORD)
AT_ONCE = 10
"""Records of one example: a report of ten takes hardly longer than one of one."""


def changed(record, some_changes):
    for path, value in some_changes:
        record = mutated(record, path, value)
    return as_bytes(record)


@st.composite
def damaged(draw):
    """A record cut off, or with a few bytes that are others."""
    content = bytearray(as_bytes(RECORD))
    for place in draw(st.lists(st.integers(0, len(content) - 1), max_size=5)):
        content[place] = draw(st.integers(0, 255))
    return bytes(content[: draw(st.one_of(st.none(), st.integers(0, len(content))))])


def lay_beside_good(*contents):
    """A folder with one good record, and one with each content."""
    folder = Path(tempfile.mkdtemp(dir=lay_beside_good.root))
    write_all(folder, [GOOD])
    for number, content in enumerate(contents, start=1):
        (folder / f"{number}").mkdir()
        (folder / f"{number}" / "record.json").write_bytes(content)
    return folder


@pytest.fixture(scope="module", autouse=True)
def root():
    with tempfile.TemporaryDirectory() as lay_beside_good.root:
        yield


def shown_by_main(*arguments):
    """Exit code and all that a command says."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(each) for each in arguments])
    return code, out.getvalue() + err.getvalue()


contents = st.one_of(changes.map(lambda some: changed(RECORD, some)), damaged())


@pytest.mark.slow
@settings(max_examples=15, **PLAIN)
@given(st.lists(contents, min_size=AT_ONCE, max_size=AT_ONCE, unique=True))
def test_harvest_survives_damaged_records(some_contents):
    found = harvest([lay_beside_good(*some_contents)])
    paths_read = {row["path"] for row in found.rows}
    assert len(paths_read) + len(found.skipped) == AT_ONCE + 1
    assert any(row["point_id"] == GOOD["point_id"] for row in found.rows)
    table = combine(found.rows)
    assert as_text(table)
    assert describe(table)


@pytest.mark.slow
@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow], **PLAIN)
@given(st.sampled_from(SUITES), changes)
def test_report_survives_damaged_record(suite, some):
    folder = lay_beside_good(changed(make_rich_record(suite), some))
    with mock.patch.object(style, "DOTS_PER_INCH", 20):
        code, told = shown_by_main(folder)
    assert code == 0
    assert "Traceback" not in told
    assert (folder / "report" / "combined.csv").exists()


@pytest.mark.parametrize("suite", ["collective", pytest.param("ring_attention", marks=pytest.mark.slow)])
def test_intact_record_gives_full_report(suite, tmp_path):
    folder = write_all(tmp_path, [make_rich_record(suite)])
    with mock.patch.object(style, "DOTS_PER_INCH", 20):
        code, told = shown_by_main(folder)
    assert (code, "left out" in told) == (0, False), told


def of_size(size):
    """The rich record as it is of another size."""
    cases = [case | {"payload_bytes": round(size * 2**20)} for case in RECORD["cases"]]
    config = RECORD["config"] | {"data_size": size}
    return as_bytes(RECORD | {"config": config, "cases": cases, "point_id": f"{size}"})


@settings(max_examples=3, suppress_health_check=[HealthCheck.too_slow], **PLAIN)
@given(st.lists(contents, min_size=AT_ONCE, max_size=AT_ONCE, unique=True))
def test_commands_survive_damaged_records(some_contents):
    sides = [lay_beside_good(*some_contents[half::2], *map(of_size, (2.0, 4.0, 8.0))) for half in range(2)]
    for arguments in (["predict", sides[0], "--world-size", "8"], ["import", sides[0]], ["compare", *sides]):
        code, told = shown_by_main(*arguments)
        assert code in (0, 1, 2)
        assert "Traceback" not in told
    assert code < 2  # of compare
    assert "indicative" in told  # the good one is in both, with a single run


@settings(max_examples=40, **PLAIN)
@given(st.sampled_from(OUTPUTS), st.data())
def test_import_survives_damaged_output(name, data):
    content = bytearray((SAMPLES / name).read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=8)):
        content[place] = data.draw(st.integers(0, 255))
    folder = Path(tempfile.mkdtemp(dir=lay_beside_good.root))
    (folder / name).write_bytes(content[: data.draw(st.integers(0, len(content)))])
    code, told = shown_by_main("import", folder / name, "--ranks", "2")
    assert code in (0, 2)
    assert "Traceback" not in told


@settings(max_examples=40, **PLAIN)
@given(st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=4), st.data())
def test_profile_survives_strange_traces(value, data):
    step = {"ph": "X", "name": "step a", "cat": "user_annotation", "pid": 1, "tid": 1, "ts": 0}
    events = [step | {"dur": 9}, step | {"dur": 9, "name": "nccl", "cat": "kernel"}]
    content = {"distributedInfo": {"rank": 0}, "traceEvents": events}
    path = data.draw(st.sampled_from(list(paths_of(content))))
    folder = Path(tempfile.mkdtemp(dir=lay_beside_good.root))
    (folder / "trace_rank_0.json").write_bytes(as_bytes(mutated(content, path, value)))
    code, told = shown_by_main("profile", folder)
    assert code in (0, 1)
    assert "Traceback" not in told
