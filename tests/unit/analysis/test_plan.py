import pytest
import yaml
from analysis.cli import main

from tests.support.cli import ROOT

STRATEGIES = {"even", "uneven", "lut", "formula", "balanced", "zigzag"}
TIME, EFFICIENCY, SPEEDUP = range(-3, 0)
LONG = ("--seq-len", "65536", "--speeds", "1,1", "--align", "64")


def planned(capsys, *arguments):
    """The cells of each strategy: the tokens of the ranks, then time, efficiency and speedup."""
    assert main(["plan", *arguments]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    return {line[0]: [float(cell) for cell in line[1:]] for line in lines if line and line[0] in STRATEGIES}


def test_plan_lists_strategies(capsys, golden):
    assert main(["plan", "--seq-len", "65536", "--speeds", "1,0.5"]) == 0
    golden(capsys.readouterr().out)


def test_plan_matches_theory(capsys):
    found = planned(capsys, *LONG)
    assert found["even"][TIME] == pytest.approx(1.5, rel=1e-3)
    assert found["balanced"][SPEEDUP] == pytest.approx(1.5, rel=1e-2)
    assert found["balanced"][EFFICIENCY] == pytest.approx(100, rel=1e-2)
    assert planned(capsys, *LONG, "--no-skip")["balanced"][SPEEDUP] == pytest.approx(1.309, rel=1e-2)
    every = planned(capsys, "--seq-len", "4096", "--speeds", "1,1,1,1", "--non-causal")
    assert "zigzag" not in every
    assert every["even"][TIME] == 1
    assert every["balanced"][:TIME] == [1024] * 4


def test_lut_is_strategy_with_defaults_of_suite(capsys, tmp_path):
    suite = yaml.safe_load((ROOT / "conf" / "suite" / "ring_attention.yaml").read_text())
    table = tmp_path / "lut.csv"
    table.write_text("mps_pct,size,dtype,bg_streams,tflops\n100,4096,float32,0,9\n50,4096,float32,0,2.9\n")
    given = ("--seq-len", "4096", "--speeds", "2,1", "--lut", str(table))
    found = planned(capsys, *given)
    assert found["lut"][0] > 3000
    assert found == planned(capsys, *given, "--align", str(suite["align"]), "--dtype", suite["dtype"])
    coarse = planned(capsys, *given, "--align", "512")
    assert coarse.keys() == STRATEGIES
    assert all(name == "even" or first % 512 == 0 for name, (first, *_) in coarse.items())


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
    given = ("--seq-len", "4096", "--speeds", "1,1,0.2")
    free, slow = (
        {name: cells[TIME] for name, cells in planned(capsys, *given, "--pass-cost", cost).items()}
        for cost in ("0", "5000")
    )
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
