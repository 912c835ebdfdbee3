import json
import threading
from pathlib import Path

import pytest
from analysis.records.harvest import harvest
from benchkit.record import files
from benchkit.record.record import SCHEMA_VERSION
from benchkit.statistics.summary import round_medians

from tests.support.records import as_record, as_version_2, make_record, make_rich_record

SAMPLES = Path(__file__).parent / "samples"


def test_reader_sees_only_whole_records(tmp_path):
    """One thread replaces the record over and over while another reads it."""
    short, long = as_record(make_record()), as_record(make_record(overrides=["x" * 100_000]))
    files.write(short, tmp_path)
    stop = threading.Event()

    def write():
        while not stop.is_set():
            files.write(long, tmp_path)
            files.write(short, tmp_path)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(50):
            files.read(tmp_path / files.FILE_NAME)
    finally:
        stop.set()
        writer.join()
    assert [path.name for path in tmp_path.iterdir()] == [files.FILE_NAME]


@pytest.mark.parametrize(("status", "flushed"), [("running", 0), ("ok", 2), ("crash", 2)])
def test_only_an_ended_point_waits_for_the_disk(tmp_path, monkeypatch, status, flushed):
    calls = []
    monkeypatch.setattr(files.os, "fsync", calls.append)
    files.write(as_record(make_record(status=status)), tmp_path)
    assert len(calls) == flushed  # the content and the name
    assert files.read_in(tmp_path).status == status


def test_record_survives_write_and_read(tmp_path):
    record = as_record(make_rich_record())
    assert files.read(files.write(record, tmp_path)) == record


@pytest.mark.parametrize("version", [1, 2])
def test_older_record_is_read_as_new(version):
    """The samples are what those versions wrote, with all but four cases taken out."""
    path = SAMPLES / f"record_{version}.json"
    old, record = json.loads(path.read_text()), files.read(path)
    assert (old["schema_version"], record.schema_version) == (version, SCHEMA_VERSION)
    assert (record.title, record.settings.backend.name) == ("tp_columnwise", "gloo")
    positions = {case["name"]: position for position, case in enumerate(old["cases"])}
    for before, now in zip(old["cases"], record.cases, strict=True):
        assert (now.labels, now.samples_s) == (before["labels"], before["samples_s"])
        assert (now.is_component, now.baseline) == (before["bound"], positions.get(before["against"]))
        parts = before["parts"]
        names = list(parts.values()) if isinstance(parts, dict) else parts or [""] * 2
        found = (now.components.computation, now.components.communication)
        assert found == tuple(positions.get(name) for name in names)
        assert now.blocks == before.get("blocks", [before.get("block_iterations")] * len(now.blocks))
        assert sum(now.blocks) <= len(now.samples_s[0])
    assert any(case.baseline is not None for case in record.cases)
    assert any(case.components.communication is not None for case in record.cases)
    assert record.agents[0].torch == old["environment"]["torch"]
    assert {row["status"] for row in harvest([path]).rows} == {"ok"}


def test_labels_keep_their_types():
    content = make_record()
    labels = {"text": "1", "integer": 1, "number": 1.0, "yes": True, "nothing": None}
    content["cases"][0]["labels"] = labels
    assert repr(as_record(content).cases[0].labels) == repr(labels)
    old = as_version_2(make_record())
    old["cases"][0]["labels"] = {"split": [3, 5], "yes": True}
    assert as_record(old).cases[0].labels == {"split": "[3, 5]", "yes": True}


def test_version_1_blocks_have_one_length():
    old = as_version_2(make_record(samples=7)) | {"schema_version": 1}
    [case] = old["cases"]
    del case["blocks"]
    case |= {"block_iterations": 3, "samples_s": [[1.0, 2, 3, 10, 20, 30, 99], [0.0] * 7]}
    assert round_medians(as_record(old).cases[0]).tolist() == [2, 20]


def test_record_refuses_missing_reference():
    content = make_rich_record()
    content["cases"][0]["baseline"] = 7
    with pytest.raises(ValueError, match="case 7"):
        as_record(content)


NOT_OURS = ("{half", "[1, 2]", "[" * 100_000, '{"a": 1}', '{"schema_version": 99}')
BROKEN = (
    *(f'{{"schema_version": {version}, "cases": ' + "[" * 100_000 for version in (2, 3)),
    '{"schema_version": 3}',
    '{"schema_version": 2, "cases": 3}',
)


def test_read_refuses_invalid_file(tmp_path, golden):
    path, reasons = tmp_path / "record.json", []
    for text in NOT_OURS + BROKEN:
        path.write_text(text)
        with pytest.raises(ValueError, match=str(path)) as error:
            files.read(path)
        reasons.append(str(error.value))
    golden("\n".join(reasons[: len(NOT_OURS)]), {r"\(.*\)": "(WHY)"})


@pytest.mark.parametrize(
    ("suite", "title"),
    [("allreduce", "allreduce"), ("collective", "all_gather"), ("transformer", "transformer")],
)
def test_untitled_record_gets_title(suite, title):
    old = make_record(suite=suite) | {"schema_version": 2}
    del old["title"]
    assert as_record(old | {"config": old["config"] | {"collective": "all_gather"}}).title == title
