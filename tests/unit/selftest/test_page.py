from dataclasses import replace

import pytest
from benchkit.selftest import command
from benchkit.selftest.clock import Clock
from benchkit.selftest.floor import FILE_NAME, Fingerprint
from benchkit.selftest.page import Findings, render
from benchkit.selftest.probe_report import ProbeReport
from benchkit.selftest.quantum import CoreNoise, Noise
from benchkit.selftest.runs import Runs, SelftestFailed

SAME = [1e-3, 1.1e-3] * 10
QUIET = Findings(
    Fingerprint(
        cpu="a processor", cores=2, kernel="6.1", torch="2.13", world_size=2, threads=1, backend="gloo", device="cpu"
    ),
    Clock(1e-9, 4e-8, 6e-8),
    Noise([CoreNoise(0, 0.001, 0.002, 2e-4)], 1.0, {"steal_s": 0.0}),
    [ProbeReport("matmul_lut 512", -1e-5, 2e-5, SAME, SAME)],
    [Runs("all_reduce 1KiB latency", [1e-4, 1.01e-4] * 6), Runs("all_reduce 1KiB back_to_back", [1e-4, 1.01e-4] * 6)],
)


def verdicts(found):
    return [part.splitlines()[0] for part in render(found).split("\n\n")[1:]]


def test_quiet_machine_has_a_verdict_per_part():
    assert verdicts(QUIET) == [
        "Clock: FINE, a pair of readings takes 0.0004 of all_reduce 1KiB latency",
        "Noise: QUIET, core 0 lost 0.20% of its time",
        "Harness: NO EFFECT that shows",
        "Runs: two single runs differ by ± 1.5 % to ± 1.5 %; smaller changes need repeated runs",
        "Modes: ONE in every run",
        "Back to back and single calls: no difference that shows",
    ]


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"clock": Clock(1e-6, 1e-5, 1e-5)}, "Clock: POOR"),
        ({"probes": [ProbeReport("x", 1e-6, 2e-5, SAME, SAME)]}, "Clock: POOR"),
        ({"noise": Noise([CoreNoise(0, 0.0, 0.0, 1e-4), CoreNoise(1, 0.5, 0.3, 1e-2)], 1.0)}, "Noise: NOISY, core 1"),
        ({"probes": [ProbeReport("x", -1, 1, SAME, [1.05 * s for s in SAME])]}, "Harness: CHANGES TIMES by up to 5.0%"),
        ({"runs": [Runs("x", [1.0, 1.1], [0.3])]}, "Modes: TWO"),
        (
            {"runs": [Runs("x latency", [1.0, 1.1] * 6), Runs("x back_to_back", [3.0, 3.3] * 6)]},
            "Back to back and single calls: DIFFERENT QUESTIONS",
        ),
        ({"runs": [Runs("x", [1.0, 1.1])]}, "Back to back and single calls: not measured"),
    ],
)
def test_what_is_wrong_is_the_verdict(changes, verdict):
    found = replace(QUIET, **changes)
    assert any(line.startswith(verdict) for line in verdicts(found))
    assert not any(line.startswith(verdict) for line in verdicts(QUIET))


def test_many_cores_are_summed_up():
    noise = Noise([CoreNoise(core, 0.0, core / 1e4, 1e-4) for core in range(64)], 1.0)
    text = render(replace(QUIET, noise=noise))
    assert "core 63" in text
    assert "core 1:" not in text
    assert "60 more cores lost less" in text


def test_page_and_floor_are_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "measured", lambda setting: QUIET)
    assert command.main(["--dir", str(tmp_path / "new")]) == 0
    assert (tmp_path / "new" / FILE_NAME).exists()
    assert f"in {tmp_path / 'new' / FILE_NAME}" in capsys.readouterr().out


def test_corrupt_floor_is_replaced_with_a_word(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "measured", lambda setting: QUIET)
    (tmp_path / FILE_NAME).write_text("{")
    assert command.main(["--dir", str(tmp_path)]) == 0
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"benchkit selftest: {tmp_path / FILE_NAME}: ignored")
    assert line.endswith("it is replaced")


def test_part_that_fails_is_one_line(tmp_path, monkeypatch, capsys):
    def measured(setting):
        raise SelftestFailed("all_reduce: unavailable: no such backend")

    monkeypatch.setattr(command, "measured", measured)
    assert command.main(["--dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "benchkit selftest: not measured: all_reduce: unavailable: no such backend\n"
    assert not (tmp_path / FILE_NAME).exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--ranks", "0"], "--ranks 0: allowed is >= 1"),
        (["--seconds", "nan"], "--seconds nan: allowed is > 0"),
        (["--dir", "/dev/null/below"], "/dev/null/below: Not a directory; choose another by --dir"),
    ],
)
def test_wrong_argument_is_one_line(arguments, says, tmp_path, capsys):
    assert command.main(["--dir", str(tmp_path), *arguments]) == 2
    assert capsys.readouterr().err == f"benchkit selftest: {says}\n"


def test_one_process_is_asked_for(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert command.main(["--dir", str(tmp_path)]) == 2
    assert "without RANK" in capsys.readouterr().err
    monkeypatch.setenv("RANK", "0")
    assert command.main(["--dir", str(tmp_path)]) == 2
    assert "torchrun started 2 processes; allowed is one" in capsys.readouterr().err
