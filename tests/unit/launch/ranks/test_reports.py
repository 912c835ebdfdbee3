"""What a rank reports: plain JSON, however long and strange what it says is."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest
from launch.ranks import logs
from launch.ranks.logs import LAST_BYTES, TEXT_CHARS, shorten, shorten_log
from launch.ranks.report import result_report
from launch.ranks.stack_dump import innermost_frame

from tests.support.launch_bodies import run


@pytest.mark.parametrize("rank", range(4))
def test_unstorable_result_is_rank_exception(tmp_path, rank):
    outcome = run("unstorable", tmp_path, count=rank + 1)
    assert not outcome.results
    assert (outcome.failure.kind, outcome.failure.type) == ("exception", "TypeError")
    assert outcome.failure.message.startswith("result cannot be stored: ")


@dataclass
class Result:
    """A result with types, as rank 0's is."""

    samples: list[float]
    labels: dict[str, str] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({1, 2}, "$: JSON has no set"),
        (Result([], details={"data": [1, b"bytes"]}), "$.details.data[1]: JSON has no bytes"),
        (Result([], details={"by": {0.5: 1}}), "$.details.by: the key 0.5; allowed is text"),
        (Result([], details={"count": -(2**63) - 1}), "$.details.count: -9223372036854775809; allowed are integers of"),
        (Result([], labels={"which": 3}), "Expected `str`, got `int` - at `$.labels[...]`"),
        (Result([float("nan")]), "Expected `float`, got `null` - at `$.samples[0]`"),
        (CYCLE, "maximum recursion depth exceeded"),
    ],
)
def test_result_report_refuses_lossy_values(result, reason):
    with pytest.raises(TypeError) as error:
        result_report(result)
    assert str(error.value).startswith(f"result cannot be stored: {reason}")


def test_result_report_holds_dataclass_fields():
    details = {"text": "µ", "no": None, "yes": True, "many": [2**63 - 1, (0.5, [])], "by": {"a": {}}}
    result = Result([1.0, 2], {"a": "b"}, details)
    assert json.loads(result_report(result)) == {"result": json.loads(json.dumps(asdict(result)))}


@pytest.mark.parametrize("body", ["no_report", "no_exception"])
def test_invalid_report_counts_as_missing(tmp_path, body):
    assert run(body, tmp_path).failure.message == "exited with code 0 and no report"


def test_long_message_keeps_start_and_end(tmp_path):
    failure = run("long_message", tmp_path).failure
    for text in (failure.message, failure.traceback):
        assert TEXT_CHARS < len(text) < TEXT_CHARS + 100
        assert "characters left out ...\n" in text
    assert failure.message[:2] + failure.message[-2:] == "aazz"


def test_empty_exception_reports_type_name(tmp_path):
    assert run("speechless", tmp_path).failure.message == "Mute"


def test_shorten_keeps_short_text():
    assert shorten("x" * TEXT_CHARS) == "x" * TEXT_CHARS
    assert "... 1 characters left out ..." in shorten("x" * (TEXT_CHARS + 1))


def test_long_log_is_cut_after_point(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "LOG_HALF_BYTES", 3)
    run("identity", tmp_path, count=1)
    assert (tmp_path / "rank_0.log").read_text() == "out\n... 6 bytes left out ...\n 0\n"


def test_shorten_log_keeps_short_or_missing_log(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "LOG_HALF_BYTES", 3)
    log = tmp_path / "log"
    shorten_log(log)
    assert not log.exists()
    log.write_text("abcdef")
    shorten_log(log)
    assert log.read_text() == "abcdef"


def with_stack(log: Path, before_bytes: int) -> Path:
    """A log that ends with a stack, after so many bytes (a hole: they take no room on the disk)."""
    with log.open("wb") as file:
        file.truncate(before_bytes)
        file.seek(before_bytes)
        file.write(b'Current thread (most recent call first):\n  File "/a/b.py", line 3 in step\n')
    return log


def test_innermost_frame_reads_end_of_log(tmp_path):
    assert innermost_frame(with_stack(tmp_path / "log", 1 << 40)).place == "step (b.py:3)"
    assert innermost_frame(with_stack(tmp_path / "log", 0)).place == "step (b.py:3)"
    assert innermost_frame(tmp_path / "none").place == "an unknown place"


def test_innermost_frame_cuts_long_stack(tmp_path):
    log = with_stack(tmp_path / "log", 0)
    with log.open("a") as file:
        file.write("x" * (LAST_BYTES // 2))
    assert len(innermost_frame(log).stack) < TEXT_CHARS + 100
