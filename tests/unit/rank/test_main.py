"""What a suite may return."""

from types import SimpleNamespace

import pytest
from benchkit.api.case import Case, Parts
from benchkit.rank.main import require_sound
from benchkit.suites.ring_attention import suite
from benchkit.suites.transformer import suite as transformer

from tests.support import configs

EVEN = Case(name="even")


@pytest.mark.parametrize(
    ("cases", "said"),
    [
        ([], "returned no case"),
        ([Case(labels={"seed": 1})], "a label cannot be named seed"),
        ([EVEN, EVEN], "two cases are named even; allowed are names that differ"),
        ([EVEN, Case(name="ours", against="odd")], "case ours: against=odd: allowed are even, ours"),
        ([Case(labels={"a": 1}, against="b")], "case {'a': 1}: against=b: allowed are none: no case has a name"),
        ([EVEN, Case(parts=Parts(computation="c"))], "case {}: parts.computation=c: allowed are even"),
        ([EVEN, Case(parts=Parts(communication="c"))], "case {}: parts.communication=c: allowed are even"),
    ],
)
def test_what_is_unsound_is_refused_in_one_line(cases, said):
    with pytest.raises(ValueError, match=r"^suite collective") as error:
        require_sound(cases, configs.config())
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_cases_may_go_unnamed_and_refer_to_each_other():
    require_sound([Case(), Case()], configs.config())
    parts = Parts("compute", "even")
    require_sound([EVEN, Case(name="ours", against="even", parts=parts), Case(name="compute")], configs.config())


@pytest.mark.parametrize("shortage", ["", "needs more"])
def test_strategies_are_compared_with_even_only_where_it_is_among_them(shortage, monkeypatch):
    """Skipped or not: here every strategy says why it cannot run."""
    shared = SimpleNamespace(obstacle=lambda strategy: shortage)
    running = SimpleNamespace(step=None, verify=None, observe=None, details=None)
    monkeypatch.setattr("benchkit.suites.ring_attention.cases.RingCase", lambda shared, strategy: running)
    for strategies, baseline in ((["even", "zigzag"], "even"), (["uneven", "zigzag"], "")):
        cases = [suite.case_of(shared, name, strategies) for name in strategies]
        require_sound(cases, configs.config())
        assert [case.name for case in cases] == strategies
        assert cases[1].against == ("" if shortage else baseline)


def test_a_pass_that_does_not_fit_can_be_referred_to():
    """The step of one rank alone does not fit beside the one that all share; the latter is still compared with it."""
    from benchkit.suites.transformer.cases import TransformerJob

    training = TransformerJob.__new__(TransformerJob)
    model = SimpleNamespace(num_heads=2, d_ff=4)
    training.config = SimpleNamespace(parallel="ddp", passes=["forward"])
    training.rank, training.model, training.shared = SimpleNamespace(world_size=2, index=0), model, True
    training.lacking, training.shortage = "", lambda name, alone: "needs more"
    cases = transformer.cases_of(training, "forward")
    assert [(case.name, case.skip) for case in cases] == [
        ("forward on 2", "needs more"),
        ("forward on 1", "needs more"),
    ]
    training.lacking = "no such kernel"
    assert [case.name for case in transformer.cases_of(training, "forward")] == ["forward on 2", "forward on 1"]
