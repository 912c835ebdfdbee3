"""Collects what the page shows, from the rows, sentences, tables and charts of a report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import pandas as pd

from analysis.baseline import Baseline
from analysis.page import question
from analysis.page.failures import Failure, failures_of
from analysis.page.markdown import as_html
from analysis.page.measurements import Packed
from analysis.page.samples import records_of, samples_of
from analysis.page.suites import TEXT_LEVEL, Suite, suite_of
from analysis.records.environments import Facts, summary
from analysis.report import rank_devices, sentences, turns
from analysis.report.attempts import or_left_out
from analysis.report.chart import PAGE_ROW

MOST_COMMANDS, MOST_SENTENCES = 3, 40
MAIN = "__main__.py"
"""The program of `python -m benchkit` in records."""
HEAD = (sentences.OVERVIEW, sentences.RUNS, sentences.FAILURES, sentences.NOT_MEASURED)
"""Paragraphs that have a place of their own on the page."""


@dataclass(frozen=True)
class Content:
    """All that the template shows.

    Attributes:
        question: what was measured for.
        verdict: the answer, in a few sentences.
        tally: how many cases were measured, and how many not.
        overview: hosts and times.
        trust: what is known of the spread between runs.
        commands: command lines that measured.
        suites: one section each.
        findings: all other sentences, by the titles of their paragraphs.
        texts: pages on turns and on the devices of ranks, as HTML.
        environment: names and values.
        failures: kinds of failures, the harmless ones last.
        samples: by the ids of rows.
    """

    question: str
    verdict: list[str]
    tally: str
    overview: list[str]
    trust: list[str]
    commands: list[str]
    suites: list[Suite]
    findings: dict[str, list[str]]
    texts: list[str]
    environment: list[tuple[str, str]]
    failures: list[Failure]
    samples: Packed

    @property
    def num_failed(self) -> int:
        """Number of cases that failed, without those that could not be measured here."""
        return sum(len(kind.names) for kind in self.failures if not kind.is_harmless)


def content_of(
    table: pd.DataFrame,
    baseline: Baseline | None,
    per_rank: pd.DataFrame,
    environments: Sequence[Facts],
) -> Content:
    """Collect the page of a report; a part that cannot be made is left out with a line on stderr.

    Args:
        table: the combined table.
        baseline: what speedups compare with; by default each suite has its own.
        per_rank: one row per rank and case.
        environments: one per record.
    """
    table = table.assign(**{PAGE_ROW: [f"r{number}" for number in range(len(table))]})
    samples = or_left_out("samples", partial(samples_of, table)) or {}
    found = {title: list(lines) for title, lines in sentences.findings(table, baseline).items()}
    verdict = question.verdict_of(table, found)
    sections = table.groupby("suite", sort=False)
    pages = (turns.describe(table), None if per_rank.empty else rank_devices.describe(per_rank))
    return Content(
        question=question.question_of(table),
        verdict=verdict,
        tally=question.tally_of(table),
        overview=found[sentences.OVERVIEW],
        trust=found[sentences.RUNS],
        commands=list(islice(commands_of(table), MOST_COMMANDS)),
        suites=[
            suite_of(number, rows, baseline, samples)
            for number, (_, rows) in enumerate(sections, 1)
        ],
        findings=dict(further(found, verdict)),
        texts=[as_html(page, TEXT_LEVEL) for page in pages if page],
        environment=list(environment_of(environments)),
        failures=failures_of(table),
        samples=samples,
    )


def further(found: Mapping[str, list[str]], verdict: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the paragraphs without the sentences that stand at the head of the page."""
    for title, lines in found.items():
        left = [line for line in lines if line not in verdict]
        if left and title not in HEAD:
            more = len(left) - MOST_SENTENCES
            yield title, left[:MOST_SENTENCES] + [f"And {more} more like these."] * (more > 0)


def commands_of(table: pd.DataFrame) -> Iterator[str]:
    """Yield the command line of each sweep, as its first record has it."""
    first = table.groupby("run", sort=False, dropna=False)["path"].first()
    commands = []
    for _, record in records_of(table[table["path"].isin(first)]):
        program, *arguments = record.environment.command or [""]
        program = "python -m benchkit" if program == MAIN else program
        commands.append(" ".join((program, *arguments)))
    yield from dict.fromkeys(filter(None, commands))


def environment_of(environments: Sequence[Facts]) -> Iterator[tuple[str, str]]:
    """Yield what is known of hosts and software; values that differ stand beside each other."""
    for name in dict.fromkeys(name for facts in environments for name in facts):
        values = [facts[name] for facts in environments if facts.get(name) is not None]
        if values:
            yield name, summary(values, "")
