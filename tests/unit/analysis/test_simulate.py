"""Simulated acceptances: fair shares of what messages pass, faults put in on purpose, and the command line."""

from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from perf.simulate.__main__ import main
from perf.simulate.acceptance import MOST_CELLS, is_named, judge_rounds, rounds_of
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
    verdict = judge_rounds(topology, rounds_of(topology, 1.0, 0), topology.ranks(), 0.05, 0)
    assert is_named(verdict, fault, topology)
    assert len(verdict.findings) == 1


@pytest.mark.parametrize(
    ("nodes", "nodes_per_leaf", "leaf", "oversubscription"),
    [(16, 4, 1, 1.0), (16, 4, 1, 2.0), (9, 3, 1, 1.0), (9, 3, 2, 1.0)],
)
def test_slow_switch_of_few_is_named(nodes, nodes_per_leaf, leaf, oversubscription):
    """Half or more of the pairs across switches pass it, and it slows them only where its uplinks are full."""
    slow = Broken("leaf", [leaf], 1.5)
    topology = Topology(
        nodes=nodes, ranks_per_node=2, rails=2, nodes_per_leaf=nodes_per_leaf, oversubscription=oversubscription,
        faults=[slow],
    )  # fmt: skip
    verdict = judge_rounds(topology, rounds_of(topology, 4.0, 0), topology.ranks(), 0.05, 0)
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
    assert (out.count("| none"), out.count("| leaf")) == (2, 1)


def test_described_cluster_has_verdict(tmp_path, capsys, golden):
    path = tmp_path / "cluster.yaml"
    path.write_text("nodes: 8\nranks_per_node: 2\nfaults: [{kind: rank, at: [5], slower: 3}]\n")
    assert main([str(path)]) == 1
    path.write_text("nodes: 8\n")
    assert main([str(path)]) == 0
    golden(capsys.readouterr().out)


def test_invalid_input_is_one_line(tmp_path, capsys, golden):
    path = tmp_path / "cluster.yaml"
    cases = [
        ("nodes: 0", []), ("knots: 4", []), ("knots: [", []),
        ("nodes: 4\nfaults: [{kind: rank, at: [99]}]", []),
        ("nodes: 4\nfaults: [{kind: link, at: [1, 1]}]", []),
        ("nodes: 1\nranks_per_node: 1", []),
        ("nodes: 1000000\nranks_per_node: 1000000", []),
        ("ranks_per_node: 4\nrails: 3", []),
        ("faults: [{kind: rank, at: [5]}]", ["--ranks", "8"]),
        ("nodes: 4", ["--noise", "nan"]), ("nodes: 4", ["--slower", "1"]), ("nodes: 4", ["--noise=-1"]),
    ]  # fmt: skip
    for content, options in cases:
        path.write_text(content)
        assert main([str(path), *options]) == 2
    errors = capsys.readouterr().err
    assert len(errors.splitlines()) == len(cases)
    golden(errors, {r"\((Expected|Object|while) .*": "(WHY)"})


@pytest.mark.slow
def test_example_of_documentation_names_its_faults(tmp_path, capsys):
    page = (Path(__file__).parents[3] / "docs/acceptance.md").read_text()
    example = page.partition("    nodes: 64\n")[2].partition("\n\n")[0]
    (tmp_path / "cluster.yaml").write_text(dedent(f"    nodes: 64\n{example}\n"))
    assert main([str(tmp_path / "cluster.yaml"), "--minutes", "8"]) == 1
    found = [line for line in capsys.readouterr().out.splitlines() if line.startswith("- ")]
    assert [[word for word in ("n5", "n0", "n2") if f" {word}" in line] for line in found] == [["n5"], ["n0", "n2"]]
