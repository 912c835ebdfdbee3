"""What a rank reports: plain JSON, however long and strange what it says is."""

from pathlib import Path

import pytest
from launch.ranks import logs
from launch.ranks.logs import LAST_BYTES, TEXT_CHARS, shorten, shorten_log
from launch.ranks.stack_dump import innermost_frame

from tests.support.launch_bodies import run


@pytest.mark.parametrize("rank", range(4))
def test_a_result_that_cannot_be_stored_is_the_ranks_exception(tmp_path, rank):
    outcome = run("unstorable", tmp_path, count=rank + 1)
    assert not outcome.results
    assert (outcome.failure.kind, outcome.failure.type) == ("exception", "TypeError")
    assert outcome.failure.message.startswith("result cannot be stored: ")


def test_what_is_no_report_is_as_good_as_none(tmp_path):
    assert run("no_report", tmp_path).failure.message == "exited with code 0 and no report"


def test_a_long_message_is_cut_to_its_beginning_and_its_end(tmp_path):
    failure = run("long_message", tmp_path).failure
    for text in (failure.message, failure.traceback):
        assert TEXT_CHARS < len(text) < TEXT_CHARS + 100
        assert "characters left out ...\n" in text
    assert failure.message[:2] + failure.message[-2:] == "aazz"


def test_an_exception_without_words_has_its_name(tmp_path):
    assert run("speechless", tmp_path).failure.message == "Mute"


def test_a_short_text_stays_as_it_is():
    assert shorten("x" * TEXT_CHARS) == "x" * TEXT_CHARS
    assert "... 1 characters left out ..." in shorten("x" * (TEXT_CHARS + 1))


def test_a_long_log_is_cut_after_the_point(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "LOG_HALF_BYTES", 3)
    run("identity", tmp_path, count=1)
    assert (tmp_path / "rank_0.log").read_text() == "out\n... 6 bytes left out ...\n 0\n"


def test_a_log_that_is_not_long_or_not_there_stays_as_it_is(tmp_path, monkeypatch):
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


def test_the_last_stack_is_found_in_a_log_of_any_length(tmp_path):
    assert innermost_frame(with_stack(tmp_path / "log", 1 << 40)).place == "step (b.py:3)"
    assert innermost_frame(with_stack(tmp_path / "log", 0)).place == "step (b.py:3)"
    assert innermost_frame(tmp_path / "none").place == "an unknown place"


def test_a_stack_without_end_is_cut(tmp_path):
    log = with_stack(tmp_path / "log", 0)
    with log.open("a") as file:
        file.write("x" * (LAST_BYTES // 2))
    assert len(innermost_frame(log).stack) < TEXT_CHARS + 100
