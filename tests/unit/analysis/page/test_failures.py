"""Failures on the page: their kinds, and the logs that belong to them."""

import os

import pytest
from analysis.page import failures
from analysis.page.failures import failures_of, last_lines

from tests.support.records import make_record, write_all
from tests.support.reports import table_in


def failed(size, status="crash", log="rank_1.log", **error):
    made = make_record(size, status=status)
    made["error"] = {"message": f"it went {status}", "rank": 1, "host": "here", "log": log, **error}
    return made


def kinds(folder, records, **logs):
    place = write_all(folder, records)
    for number, text in logs.items():
        (place / number.removeprefix("log") / "rank_1.log").write_text(text)
    return failures_of(table_in(place))


def test_same_failures_are_one_kind_with_first_log(tmp_path):
    records = [make_record(1.0), failed(2.0), failed(3.0), failed(4.0, "oom")]
    crash, oom = kinds(tmp_path, records, log1="first\nlast words", log2="other")
    assert (crash.status, crash.reason, crash.where) == ("crash", "it went crash", "rank 1 on here")
    assert crash.names == ["allreduce (data_size=2 MiB)", "allreduce (data_size=3 MiB)"]
    assert (crash.log_name, crash.log) == ("rank_1.log", "first\nlast words")
    assert (oom.status, oom.log) == ("oom", "")


def test_harmless_kinds_come_last(tmp_path):
    records = [failed(1.0, "unavailable"), failed(2.0, "unavailable"), failed(3.0, "timeout", signal=9)]
    timeout, unavailable = kinds(tmp_path, records)
    assert (timeout.is_harmless, unavailable.is_harmless) == (False, True)
    assert timeout.where == "rank 1 on here, signal 9"


@pytest.mark.parametrize(
    "name",
    [
        "../secret.txt", "/etc/hostname", "", ".", "a\0b", ".netrc", "record.json", "rank_1.log\n",
        "rank_0.log", "rank_1.log", "rank_2.log", "rank_3.log",
    ],
)  # fmt: skip
def test_only_log_in_own_folder_is_read(tmp_path, name):
    (tmp_path / "secret.txt").write_text("secret")
    place = write_all(tmp_path / "sweep", [failed(1.0, log=name)])
    (place / "0" / ".netrc").write_text("secret")
    (place / "0" / "rank_0.log").symlink_to(tmp_path / "secret.txt")
    os.link(tmp_path / "secret.txt", place / "0" / "rank_1.log")
    os.mkfifo(place / "0" / "rank_2.log")
    [kind] = failures_of(table_in(place))
    assert (kind.log_name, kind.log) == ("", "")


def test_log_is_cut_to_its_end_and_has_no_control_characters():
    text = last_lines("\n".join(f"line {number}" for number in range(1000)))
    assert text.startswith("…\nline 960\n")
    assert text.endswith("line 999")
    assert len(last_lines("x" * 10**6)) == failures.MOST_LETTERS + 2
    assert last_lines("\x1b[31mred\x1b[0m\x00 a\x08\tb \u202ec\r\n") == "red a\tb c"


def test_huge_log_is_read_from_its_end(tmp_path):
    place = write_all(tmp_path, [failed(1.0)])
    with (place / "0" / "rank_1.log").open("wb") as file:
        file.truncate(10**9)  # a hole that takes no space
        file.seek(0, 2)
        file.write(b"\nthe end")
    [kind] = failures_of(table_in(place))
    assert kind.log.endswith("the end")


def test_of_many_kinds_the_first_have_logs(tmp_path, monkeypatch):
    monkeypatch.setattr(failures, "MOST_KINDS", 1)
    first, second = kinds(tmp_path, [failed(1.0), failed(2.0, "oom")], log0="a", log1="b")
    assert (first.log, second.log) == ("a", "")


def test_long_reason_is_cut(tmp_path):
    [kind] = kinds(tmp_path, [failed(1.0, message="x" * 2000)])
    assert kind.reason == "x" * failures.MOST_REASON + "…"
