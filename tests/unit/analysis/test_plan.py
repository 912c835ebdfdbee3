import pytest
import yaml
from analysis.__main__ import main
from analysis.commands.plan import ALIGN, DTYPE, plan
from benchkit.suites.ring_attention.splits import CostModel

from tests.support.cli import ROOT

STRATEGIES = {"even", "uneven", "lut", "formula", "balanced", "zigzag"}


def test_plan_lists_strategies(capsys, golden):
    assert main(["plan", "--seq-len", "65536", "--speeds", "1,0.5"]) == 0
    golden(capsys.readouterr().out)


def test_plan_matches_theory():
    table = plan(65536, [1.0, 1.0], 64, CostModel()).set_index("strategy")
    assert table.loc["even", "time"] == pytest.approx(1.5, rel=1e-3)
    assert table.loc["balanced", "speedup over even"] == pytest.approx(1.5, rel=1e-2)
    assert table.loc["balanced", "efficiency [%]"] == pytest.approx(100, rel=1e-2)
    square = plan(65536, [1.0, 1.0], 64, CostModel(skips=False)).set_index("strategy")
    assert square.loc["balanced", "speedup over even"] == pytest.approx(1.309, rel=1e-2)


def test_even_split_wins_without_causal_mask():
    table = plan(4096, [1.0] * 4, 64, CostModel(causal=False)).set_index("strategy")
    assert "zigzag" not in table.index
    assert table.loc["even", "time"] == pytest.approx(1.0)
    assert table.loc["balanced", "tokens per rank"] == "1024 1024 1024 1024"


def test_plan_defaults_match_suite():
    suite = yaml.safe_load((ROOT / "conf" / "suite" / "ring_attention.yaml").read_text())
    assert (suite["align"], suite["dtype"]) == (ALIGN, DTYPE)


def test_lut_option_adds_strategy(capsys, tmp_path):
    table = tmp_path / "lut.csv"
    table.write_text("mps_pct,latency_ms\n100,1\n50,3\n")
    assert main(["plan", "--seq-len", "4096", "--speeds", "2,1", "--lut", str(table)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[:3] for line in lines if line and line[0] == "lut"] == [["lut", "3072", "1024"]]


def test_mismatched_lut_is_reported(capsys, tmp_path, golden):
    table = tmp_path / "lut.csv"
    table.write_text("mps_pct,size,dtype,bg_streams,tflops\n100,1024,bfloat16,0,8\n50,1024,bfloat16,0,4\n")
    given = ["plan", "--seq-len", "4096", "--speeds", "2,1", "--lut", str(table)]
    assert main([*given, "--dtype", "bfloat16"]) == 0
    assert "lut: sizes 1024 to 1024" in capsys.readouterr().out
    assert main(given) == 2
    golden(capsys.readouterr().err)


def test_pair_time_gives_times_in_ms(capsys):
    given = ["plan", "--seq-len", "1000", "--speeds", "1,1", "--align", "1"]
    assert main([*given, "--pair-ns", "30", "--token-cost", str(2000 / 3)]) == 0  # 20 µs
    lines = capsys.readouterr().out.splitlines()
    assert "time [ms]" in lines[2]
    even_ms = 500 * 20e-3 + (500 * 500 + 500 * 501 / 2) * 30e-6
    assert float(lines[4].split()[3]) == pytest.approx(even_ms, rel=1e-3)
    ideal_ms = (1000 * 20e-3 + 1000 * 1001 / 2 * 30e-6) / 2
    assert lines[-1].endswith(f"is {ideal_ms:.4g} ms")


def test_pass_cost_makes_ranks_wait(capsys):
    given = ["plan", "--seq-len", "4096", "--speeds", "1,1,0.2"]
    seconds = []
    for pass_cost in ("0", "5000"):
        assert main([*given, "--pass-cost", pass_cost]) == 0
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        seconds.append({line[0]: float(line[4]) for line in lines if len(line) == 7})
    free, slow = seconds
    assert all(slow[name] > free[name] for name in free)
    assert slow["balanced"] < min(slow[name] for name in slow if name != "balanced")


def test_invalid_arguments_are_refused_in_one_line(capsys, golden):
    for sequence, speeds, *others in (
        ("0", "1,1"), ("8", "1,-1"), ("8", "nan,1"), ("8", "1,nan"), ("8", "inf,1"), ("8", "1,1", "--token-cost", "-1"),
        ("8", "1,1", "--token-cost", "inf"), ("8", "1,1", "--pair-ns", "0"), ("8", "1,1", "--pass-cost", "nan"),
        ("8", "1,1", "--lut", "nowhere.csv"),
    ):  # fmt: skip
        assert main(["plan", "--seq-len", sequence, "--speeds", speeds, *others]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 10
    golden(err)


def test_boundaries_follow_align(capsys, tmp_path):
    table = tmp_path / "lut.csv"
    table.write_text("mps_pct,latency_ms\n100,1\n50,2.9\n")
    given = ["plan", "--seq-len", "4096", "--speeds", "2,1", "--lut", str(table), "--align", "512"]
    assert main(given) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line and line.split()[0] in STRATEGIES]
    assert {row[0] for row in rows} == STRATEGIES
    for strategy, first, *_ in rows:
        assert strategy == "even" or int(first) % 512 == 0, strategy
