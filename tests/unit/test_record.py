import errno
import tempfile
import threading

import pytest
from benchkit.point.point_folder import write_to_temporary_folder
from benchkit.record import files

from tests.support.records import as_record, make_record, make_rich_record


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
    assert files.read_from(tmp_path).status == status


def test_failing_disk_is_named_and_no_empty_folder_is_left(tmp_path, monkeypatch):
    def fail(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files.os, "fsync", fail)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(OSError, match="manifest"):
        files.write_atomically(tmp_path / "manifest", b"1")
    assert write_to_temporary_folder(as_record(make_record(status="crash"))) is None
    assert list(tmp_path.iterdir()) == []


def test_record_survives_write_and_read(tmp_path):
    record = as_record(make_rich_record())
    assert files.read(files.write(record, tmp_path)) == record


def test_labels_keep_their_types():
    content = make_record()
    labels = {"text": "1", "integer": 1, "number": 1.0, "yes": True, "nothing": None}
    content["cases"][0]["labels"] = labels
    assert repr(as_record(content).cases[0].labels) == repr(labels)


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
