import json
import threading

import pytest
from benchkit import record


def test_a_reader_never_sees_half_a_record(tmp_path):
    """One thread replaces the record over and over while another reads it."""
    record.write({"schema_version": record.SCHEMA_VERSION, "n": 0}, tmp_path)
    stop = threading.Event()

    def write():
        n = 0
        while not stop.is_set():
            n += 1
            record.write({"schema_version": record.SCHEMA_VERSION, "n": n, "filler": "x" * 100_000}, tmp_path)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(200):
            record.read(tmp_path / record.FILE_NAME)
    finally:
        stop.set()
        writer.join()
    assert [path.name for path in tmp_path.iterdir()] == [record.FILE_NAME]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{half", "not readable as JSON"),
        ("[1, 2]", "not a benchkit record"),
        ('{"a": 1}', "not a benchkit record"),
        ('{"schema_version": 99}', "record version 99"),
    ],
)
def test_what_is_no_record_is_named(tmp_path, text, reason):
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=reason) as error:
        record.read(path)
    assert str(path) in str(error.value)


def test_identity_is_what_is_measured_not_when_or_how_patiently():
    config = {"data_size": 1.0, "timeout_s": 600, "world_size": "auto"}
    identity = record.point_id(config, 2)
    assert record.point_id(config | {"timeout_s": 5}, 2) == identity
    assert record.point_id(config, 4) != identity
    assert record.point_id(config | {"data_size": 2.0}, 2) != identity
    assert len(identity) == 12


def test_auto_and_the_number_it_stands_for_are_the_same_point():
    config = {"data_size": 1.0, "world_size": "auto", "threads_per_rank": "auto"}
    given = config | {"world_size": 2}
    assert record.point_id(config, 2) == record.point_id(json.loads(json.dumps(given)), 2)
