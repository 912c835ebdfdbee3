"""The page or the verdict at the end of a sweep, which analysis makes in a process of its own."""

import logging
import subprocess

import pytest
from analysis.page.render import FILE_NAME
from benchkit import child
from benchkit.sweep import sweep_folder as report
from benchkit.sweep.status import exit_code

from tests.support.acceptance import pairs, speeds
from tests.support.records import make_record, write_all


@pytest.fixture
def said(caplog, monkeypatch):
    """What the sweep logs, with its levels."""
    monkeypatch.setattr(report.log, "propagate", True)
    caplog.set_level(logging.INFO, "benchkit")
    return lambda: [(record.levelname, record.getMessage()) for record in caplog.records]


@pytest.mark.slow
def test_page_is_written_where_users_have_own_analysis(tmp_path, monkeypatch, said):
    write_all(tmp_path / "sweep", [make_record(status="crash")])
    (tmp_path / "analysis").mkdir()
    (tmp_path / "analysis" / "__main__.py").write_text("raise SystemExit('mine')")
    monkeypatch.chdir(tmp_path)
    report.write_page((tmp_path / "sweep").relative_to(tmp_path))
    assert said() == [("INFO", f"page: sweep/report/{FILE_NAME}")]
    assert (tmp_path / "sweep" / report.PAGE_FILE).read_text().startswith("<!doctype html>")


def test_failure_of_analysis_is_one_warning(tmp_path, said):
    old = tmp_path / report.PAGE_FILE
    old.parent.mkdir()
    old.touch()
    report.write_page(tmp_path)  # a folder without records
    [(level, line)] = said()
    assert (level, "no record.json" in line) == ("WARNING", True)
    assert not old.exists()  # it would pass for the page of this sweep


@pytest.mark.slow
def test_page_behind_a_link_is_neither_removed_nor_claimed(tmp_path, said):
    folder = write_all(tmp_path / "sweep", [make_record(status="crash")])
    mine = tmp_path / "elsewhere" / FILE_NAME
    mine.parent.mkdir()
    mine.write_text("mine")
    (folder / "report").symlink_to(mine.parent)
    report.write_page(folder)
    assert mine.read_text() == "mine"
    [(level, _)] = said()
    assert level == "WARNING"


@pytest.mark.parametrize("error", [OSError("no more"), subprocess.TimeoutExpired(["analysis"], 3)])
def test_analysis_that_does_not_run_is_one_warning(tmp_path, monkeypatch, said, error):
    def captured(program, limit_s):
        raise error

    monkeypatch.setattr(child, "capture_output", captured)
    report.write_page(tmp_path)
    assert [level for level, _ in said()] == ["WARNING"]


def test_modules_of_suites_are_found_where_the_user_works(tmp_path, monkeypatch, said):
    given = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")

    def captured(program, limit_s):
        given.append(program)
        return child.CapturedOutput(0, "", "")

    monkeypatch.setattr(child, "capture_output", captured)
    report.write_page(tmp_path)
    assert given[0].environment["PYTHONPATH"] == f"/elsewhere:{tmp_path}"
    assert [level for level, _ in said()] == ["WARNING"]


def test_verdict_is_printed_and_decides_the_exit_code(tmp_path, capfd):
    write_all(tmp_path / "alike", [pairs(seed=0), pairs(seed=1), speeds()])
    assert report.report_on(tmp_path / "alike", "verdict") == []
    assert capfd.readouterr().out.startswith("\nALL ALIKE")
    slow = [pairs(lambda i, j: 2.0 if 2 in (i, j) else 1.0, seed=seed) for seed in (0, 1)]
    write_all(tmp_path / "slow", slow)
    assert exit_code([*["ok"] * 2, *report.report_on(tmp_path / "slow", "verdict")]) == 1
    assert "rank 2 on n1" in capfd.readouterr().out


@pytest.mark.slow
def test_sweep_without_anything_to_judge_is_one_warning(tmp_path, said):
    write_all(tmp_path, [make_record()])
    assert report.report_on(tmp_path, "verdict") == [report.OUT_OF_LINE]
    assert [level for level, _ in said()] == ["WARNING"]
