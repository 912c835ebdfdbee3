"""Which version of its own source benchkit says it is."""

import subprocess

import pytest
from benchkit import checkout as checkout_of


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with one commit, which checkout.py takes for its own."""
    file = tmp_path / "checkout.py"
    file.write_bytes(b"a = 1\n")
    commands = (["init", "-q"], ["add", "checkout.py"], ["commit", "-qm", "Begin"])
    for command in commands:
        who = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
        subprocess.run(["git", "-C", tmp_path, *who, *command], check=True)
    monkeypatch.setattr(checkout_of, "__file__", str(file))
    return file


def test_dirty_checkout_has_diff_hash(checkout):
    clean = checkout_of.checkout.__wrapped__()
    assert len(clean["git_commit"]) == 40
    assert (clean["git_dirty"], clean["git_diff_hash"]) == (False, None)
    hashes = set()
    for text in (b"a = 2\n", b"a = 3\n", b"a = '\xff'\n"):  # the last is no UTF-8
        checkout.write_bytes(text)
        changed = checkout_of.checkout.__wrapped__()
        assert changed["git_dirty"]
        assert len(changed["git_diff_hash"]) == 12
        hashes.add(changed["git_diff_hash"])
    assert len(hashes) == 3


def test_installed_package_has_no_commit(checkout, monkeypatch):
    monkeypatch.setattr(checkout_of, "__file__", str(checkout.with_name("installed.py")))
    assert set(checkout_of.checkout.__wrapped__().values()) == {None}


def test_failed_command_gives_empty_output():
    assert checkout_of.output("no-such-command-anywhere") == ""
    assert checkout_of.output("false") == ""
