"""Standard streams that are closed, full, without a reader, or in a locale without some letters."""

import codecs
import os
import subprocess
import sys

import pytest
from benchkit.streams import protect_streams

from tests.support.cli import ROOT

BODY = """
import subprocess, sys
from benchkit.streams import protect_streams
protect_streams("me")
with open("record", "w") as file:
    print("out", flush=True)
    print("err", file=sys.stderr, flush=True)
    file.write("whole")
for number in range(3):
    print("µ ± ─ é", number, flush=True)
subprocess.run(["sh", "-c", "for number in 0 1 2; do [ -e /proc/self/fd/$number ] || exit 1; done"], check=True)
sys.stdout.write("the rest, which is flushed at exit")
"""


def ran(folder, redirections="", stdout=subprocess.PIPE, **variables):
    """The exit code, standard output and standard error of a process that prints."""
    command = ["sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, "-c", BODY]
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | variables
    done = subprocess.run(command, cwd=folder, env=environment, stdout=stdout, stderr=subprocess.PIPE, check=False)
    assert (folder / "record").read_text() == "whole"
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("redirections", [">&-", "2>&-", "<&- >&- 2>&-", "> /dev/full 2>&1"])
def test_process_ends_well_whatever_its_streams_are(tmp_path, redirections):
    code, _, _ = ran(tmp_path, redirections)
    assert code == 0


@pytest.mark.parametrize(("redirection", "other"), [("> /dev/full", 2), ("2> /dev/full", 1)])
def test_other_stream_says_once_what_is_lost(tmp_path, redirection, other):
    code, *streams = ran(tmp_path, redirection)
    assert code == 0
    assert streams[other - 1].count(b"me: ") == 1
    assert streams[2 - other] == b""


def test_reader_may_leave(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    code, _, err = ran(tmp_path, stdout=writer)
    os.close(writer)
    assert (code, err) == (0, b"err\n")


@pytest.mark.parametrize("encoding", ["gbk", "ascii", "latin-1"])
def test_letters_that_a_locale_lacks_are_replaced(tmp_path, encoding):
    code, out, _ = ran(tmp_path, PYTHONIOENCODING=encoding)
    lines = out.decode(encoding).splitlines()
    assert code == 0
    assert lines[0] == "out"
    assert [line.split()[0] for line in lines[1:4]] == ["µ" if encoding == "latin-1" else "u"] * 3
    assert [line.split()[-1] for line in lines[1:4]] == ["0", "1", "2"]


def test_pipe_that_does_not_block_gets_all(tmp_path):
    """As a terminal multiplexer or Node.js leaves it."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    body = 'from benchkit.streams import protect_streams; protect_streams(); print("x" * 1_000_000)'
    process = subprocess.Popen([sys.executable, "-c", body], cwd=ROOT, stdout=theirs)
    os.close(theirs)
    with os.fdopen(ours, "rb") as reader:
        assert len(reader.read()) == 1_000_001
    assert process.wait() == 0


def test_streams_of_others_stay(capsys):
    before = sys.stdout, sys.stderr
    protect_streams("me")
    assert (sys.stdout, sys.stderr) == before


def test_what_cannot_be_decoded_is_not_ours():
    protect_streams()
    with pytest.raises(UnicodeDecodeError):
        codecs.decode(b"\xff", "utf-8", "benchkit.substitutes")
