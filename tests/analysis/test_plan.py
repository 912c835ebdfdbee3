import pytest

from analysis.__main__ import main
from analysis.plan import plan
from benchkit.splits import CostModel


def test_a_plan_says_what_each_strategy_is_worth(capsys):
    assert main(["plan", "--seq-len", "65536", "--speeds", "1,0.5"]) == 0
    out = capsys.readouterr().out
    assert "65536 tokens on ranks of speed 1, 0.5" in out
    assert [line.split()[0] for line in out.splitlines()[4:9]] == ["even", "uneven", "formula", "balanced", "zigzag"]


def test_its_figures_are_those_of_theory():
    table = plan(65536, [1.0, 1.0], 64, CostModel()).set_index("strategy")
    assert table.loc["even", "time"] == pytest.approx(1.5, rel=1e-3)
    assert table.loc["balanced", "speedup over even"] == pytest.approx(1.5, rel=1e-2)
    assert table.loc["balanced", "efficiency [%]"] == pytest.approx(100, rel=1e-2)
    square = plan(65536, [1.0, 1.0], 64, CostModel(skips=False)).set_index("strategy")
    assert square.loc["balanced", "speedup over even"] == pytest.approx(1.309, rel=1e-2)


def test_where_every_query_sees_every_key_even_is_best_at_equal_speeds():
    table = plan(4096, [1.0] * 4, 64, CostModel(causal=False)).set_index("strategy")
    assert "zigzag" not in table.index
    assert table.loc["even", "time"] == pytest.approx(1.0)
    assert table.loc["balanced", "tokens per rank"] == "1024 1024 1024 1024"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--seq-len", "0", "--speeds", "1,1"], "allowed are numbers >= 1"),
        (["--seq-len", "8", "--speeds", "1,-1"], "--speeds 1,-1: allowed are numbers > 0"),
        (["--seq-len", "8", "--speeds", "1,1", "--token-cost", "-1"], "allowed are numbers >= 0"),
    ],
)
def test_nonsense_is_one_line(capsys, arguments, complaint):
    assert main(["plan", *arguments]) == 2
    err = capsys.readouterr().err
    assert complaint in err
    assert err.count("\n") == 1
