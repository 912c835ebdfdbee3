"""Simulated acceptances: fair shares of what messages pass, faults put in on purpose, and the command line."""

from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from perf.simulate.__main__ import main
from perf.simulate.acceptance import MOST_CELLS, is_named, judged, rounds_of
from perf.simulate.flow import seconds_of
from perf.simulate.topology import Broken, Topology

SMALL = {"nodes": 6, "ranks_per_node": 2, "rails": 1, "nodes_per_leaf": 2, "size_mib": 1000 / 2**20 * 1e6}
"""Messages of 1 GB, so that a time is 1 / rate."""


@pytest.mark.parametrize(
    ("changes", "pairs", "gb_per_s"),
    [
        ({}, [(0, 1)], [300]),
        ({}, [(0, 2)], [50]),
        ({}, [(0, 2), (1, 3)], [25, 25]),
        ({"rails": 2}, [(0, 2), (1, 3)], [50, 50]),
        ({"oversubscription": 4.0}, [(0, 2), (4, 8)], [50, 25]),
        ({"faults": [Broken("node", [0], 2.0)]}, [(0, 2), (4, 8)], [25, 50]),
        ({"faults": [Broken("leaf", [0], 10.0)]}, [(0, 2), (4, 8)], [50, 50]),
        ({"faults": [Broken("leaf", [0], 10.0)]}, [(0, 4), (2, 8)], [5, 5]),
        ({"faults": [Broken("one way", [0, 2], 5.0)]}, [(0, 2), (3, 1)], [10, 50]),
        ({"faults": [Broken("link", [2, 0], 5.0)]}, [(0, 2), (4, 8)], [10, 50]),
        ({"faults": [Broken("sends", [2], 2.0)]}, [(0, 2), (4, 8)], [50, 50]),
        ({"faults": [Broken("rank", [2], 2.0)]}, [(0, 2), (4, 8)], [25, 50]),
    ],
)
def test_messages_share_what_they_pass(changes, pairs, gb_per_s):
    topology = Topology(**(SMALL | {"latency_us": 1e-6} | changes))
    sender, receiver = np.array(pairs).T
    assert 1 / seconds_of(topology, sender, receiver) == pytest.approx(gb_per_s, rel=0.01)


@pytest.mark.parametrize(
    "fault",
    [
        Broken("rank", [3]), Broken("sends", [3]), Broken("link", [3, 20]), Broken("one way", [3, 20]),
        Broken("node", [2]), Broken("leaf", [1], 4.0),
    ],
    ids=lambda fault: fault.kind,
)  # fmt: skip
def test_fault_is_named_by_verdict(fault):
    topology = Topology(nodes=12, ranks_per_node=4, rails=4, nodes_per_leaf=2, faults=[fault])
    verdict = judged(topology, rounds_of(topology, 1.0, 0), topology.ranks(), 0.05, 0)
    assert is_named(verdict, fault, topology)
    assert len(verdict.findings) == 1


@pytest.mark.parametrize(
    ("nodes", "nodes_per_leaf", "leaf", "oversubscription"),
    [
        (16, 4, 1, 1.0),
        (16, 4, 1, 2.0),
        (18, 4, 1, 1.0),
        (12, 4, 0, 1.0),
        (9, 3, 0, 1.0),
        (9, 3, 1, 1.0),
        (9, 3, 2, 1.0),
    ],
)
def test_slow_switch_of_few_is_named(nodes, nodes_per_leaf, leaf, oversubscription):
    """Half or more of the pairs across switches pass it, and it slows them only where its uplinks are full."""
    slow = Broken("leaf", [leaf], 1.5)
    topology = Topology(
        nodes=nodes, ranks_per_node=2, rails=2, nodes_per_leaf=nodes_per_leaf, oversubscription=oversubscription,
        faults=[slow],
    )  # fmt: skip
    verdict = judged(topology, rounds_of(topology, 4.0, 0), topology.ranks(), 0.05, 0)
    assert is_named(verdict, slow, topology)
    assert len(verdict.findings) == 1


def test_time_and_memory_limit_rounds():
    topology = Topology(nodes=64)
    everything, some = (rounds_of(topology, minutes, 0) for minutes in (100.0, 0.5))
    assert (everything.share, len(everything.sender)) == (1.0, 512 * 511)
    assert some.share < 0.5
    assert some.minutes <= 0.5
    assert len(rounds_of(Topology(nodes=512), 1000.0, 0).sender) <= MOST_CELLS


def test_table_has_row_per_fault(capsys):
    assert main(["--ranks", "8,32", "--repetitions", "1", "--noise", "0.02"]) == 0
    out = capsys.readouterr().out
    assert out.count("| none") == 2
    assert out.count("| leaf") == 1
    assert "peak memory" in out


def test_described_cluster_has_verdict(tmp_path, capsys):
    path = tmp_path / "cluster.yaml"
    path.write_text("nodes: 8\nranks_per_node: 2\nfaults: [{kind: rank, at: [5], slower: 3}]\n")
    assert main([str(path)]) == 1
    assert "- rank 5 on n2: times its peers' time: messages of 16 MiB 3.0" in capsys.readouterr().out
    path.write_text("nodes: 8\n")
    assert main([str(path)]) == 0
    assert "ALL ALIKE: 64 ranks on 8 nodes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("nodes: 0", [], "no topology (Expected `int` >= 1"),
        ("knots: 4", [], "no topology (Object contains unknown field `knots`)"),
        ("knots: [", [], "no topology (while parsing"),
        ("nodes: 4\nfaults: [{kind: rank, at: [99]}]", [], "fault rank at [99]: allowed is 1 number below 32"),
        ("nodes: 4\nfaults: [{kind: link, at: [1, 1]}]", [], "fault link at [1, 1]: allowed is 2 numbers below 32"),
        ("nodes: 1\nranks_per_node: 1", [], "1 ranks: allowed are 2 to 131072"),
        ("nodes: 1000000\nranks_per_node: 1000000", [], "1000000000000 ranks: allowed are 2 to 131072"),
        ("ranks_per_node: 4\nrails: 3", [], "rails 3: allowed are divisors of ranks_per_node (4), and more than it"),
        ("faults: [{kind: rank, at: [5]}]", ["--ranks", "8"], "--ranks puts in each kind of fault; "),
        ("nodes: 4", ["--noise", "nan"], "--noise nan: allowed is >= 0, at most 10"),
        ("nodes: 4", ["--noise", "0.1,inf"], "--noise inf: allowed is >= 0, at most 10"),
        ("nodes: 4", ["--minutes", "nan"], "--minutes nan: allowed is > 0"),
        ("nodes: 4", ["--slower", "nan"], "--slower nan: allowed is > 1"),
        ("nodes: 4", ["--slower", "inf"], "--slower inf: allowed is > 1, at most 1e+06"),
        ("nodes: 4", ["--ranks", "9"], "--ranks 9: allowed are multiples of 8"),
        ("nodes: 4", ["--minutes", "0"], "--minutes 0: allowed is > 0"),
        ("nodes: 4", ["--slower", "1"], "--slower 1: allowed is > 1"),
        ("nodes: 4", ["--noise=-1"], "--noise -1: allowed is >= 0"),
    ],
)
def test_invalid_input_is_one_line(tmp_path, capsys, content, options, said):
    path = tmp_path / "cluster.yaml"
    path.write_text(content)
    assert main([str(path), *options]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.slow
def test_example_of_documentation_names_its_faults(tmp_path, capsys):
    page = (Path(__file__).parents[3] / "docs/acceptance.md").read_text()
    example = page.partition("    nodes: 64\n")[2].partition("\n\n")[0]
    (tmp_path / "cluster.yaml").write_text(dedent(f"    nodes: 64\n{example}\n"))
    assert main([str(tmp_path / "cluster.yaml"), "--minutes", "8"]) == 1
    told = capsys.readouterr().out
    assert "OUT OF LINE: 2 findings" in told
    assert "- node n5 (ranks" in told
    assert "- the link from rank 3 on n0 to rank 17 on n2, in this direction" in told
