"""The first screen: answer, table, confidence, caveats and next steps.

It fits 24 lines of 80 columns, and stands at the end of a sweep, above every report, and in front
of the page.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from textwrap import TextWrapper, shorten

import pandas as pd

from analysis.records.doubts import SPIKE, is_by_others
from analysis.records.results import Row
from analysis.screen.answers import MOST_ANSWERS, answers_of, confounded_words, join_names, title_of
from analysis.screen.grid import WIDTH, ScreenTable, grid_of, interval_of
from analysis.shared.discover import conclusions, make_or_leave_out, summaries
from analysis.shared.text import first_line, format_number, shorten_reason
from analysis.table.combine import oversubscribed_ranks, reasons, suite_columns
from analysis.table.repetitions import (
    describe_error_bars,
    fill_with_ranges,
    format_count_range,
    interval_columns,
)
from analysis.table.speedup import Variant
from analysis.table.variants import (
    RANKS,
    Baseline,
    SuiteResults,
    compare_suites,
    count_distinct,
    num_job_cores,
)
from benchkit.api.question import Question
from benchkit.record.naming import percent, plus_minus
from benchkit.record.record import HARMLESS
from benchkit.statistics.intervals import fewest_values
from benchkit.statistics.judgement import AHEAD, bonferroni_alpha

LINES = 24
MOST_UNMEASURED, MOST_CAVEATS = 8, 3
MOST_REASONS = 5
LEAST_ROWS = 4
"""Rows of the table that are shown in any case, however much was not measured."""
SPIKY_SHARE = 0.01
APART = 1.25
"""Ratio of mean to median above which spikes are reported."""
ROUNDING = 0.01
"""Error of the ratio of two times that are rounded to three digits, as a share."""


@dataclass
class Screen:
    """What a reader should know first.

    Attributes:
        subject: what was measured, and where; empty for several suites.
        answers: one to four lines.
        unmeasured: lines on unmeasured points or cases, one per reason.
        grid: table of the variants; None where several suites answer.
        terms: meanings of its words; on a terminal only if no row is cut for them.
        confidence: how sure the answer is.
        caveats: what lowers the trust in the answer, the worst first.
        next_steps: what one may measure next.
    """

    subject: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    unmeasured: list[str] = field(default_factory=list)
    grid: ScreenTable | None = None
    terms: list[str] = field(default_factory=list)
    confidence: list[str] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)
    next_steps: list[str] = field(default_factory=list)

    @property
    def headline(self) -> str:
        """The first answer up to its first semicolon; `answers` has the rest of it."""
        return self.answers[0].partition("; ")[0] if self.answers else "Nothing was measured"

    def text(self, width: int = WIDTH) -> str:
        head = wrap_lines([*self.subject, *self.answers], width)
        foot = wrap_lines([*self.confidence, *self.caveats, *self.next_steps], width)
        rows = self.grid.rows if self.grid else []
        has_variants = bool(self.grid and self.grid.is_ranked)  # of which none may be missing
        room = LINES - len(head) - len(foot) - 3 + has_variants  # two empty lines, one to spare
        terms = wrap_lines(self.terms, width)
        if len(wrap_lines(self.unmeasured, width)) + len(rows) + 2 + len(terms) <= room:
            foot, room = [*terms, *foot], room - len(terms)
        of_grid = min(len(rows), LEAST_ROWS) + 2 if rows else 0
        most = width * (2 if 2 * len(self.unmeasured) <= MOST_UNMEASURED else 1)
        lines = (shorten(line, most, placeholder=" …") for line in self.unmeasured)
        unmeasured = wrap_lines(lines, width)
        if len(unmeasured) > (shown := max(MOST_UNMEASURED, room - of_grid)):
            unmeasured = [*unmeasured[: shown - 1], "and more that was not measured"]
        parts = [head + unmeasured, foot]
        if self.grid and rows:
            parts.insert(1, self.grid.lines(max(LEAST_ROWS, room - len(unmeasured) - 2)))
        return "\n\n".join("\n".join(part) for part in parts if part)


def wrap_lines(lines: Iterable[str], width: int) -> list[str]:
    """Wrap lines, but break no path, because it is to be copied."""
    wrapper = TextWrapper(
        width, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
    )
    return [part for line in lines for part in wrapper.wrap(line)]


def screen_of(
    table: pd.DataFrame, baseline: Baseline | None = None, next_steps: Sequence[str] = ()
) -> Screen:
    """Make the screen of a table, with the answers to the questions of its suites.

    Args:
        baseline: what to compare with, in place of the suites' own baselines.
        next_steps: lines to add to those of the suites.
    """
    screen, concluded = Screen(), set[str]()
    for module in conclusions():
        if table["suite"].isin(module.CONCLUDED).any():
            conclude = partial(list[str], module.conclude(table))
            lines = make_or_leave_out(f"conclusion of {module.__name__}", conclude)
            screen.answers += lines or []
            concluded |= set(module.CONCLUDED)
    compared = compare_suites(table, baseline).items()
    suites = [(suite, results) for suite, results in compared if suite not in concluded]
    for suite, results in suites:
        if results.variants:
            most = MOST_ANSWERS if len(suites) == 1 else 2
            screen.answers += list(answers_of(results))[:most]
        else:
            screen.answers.append(f"{suite}: nothing was measured")
    question = suites[0][1].question if len(suites) == 1 else Question()
    screen.unmeasured = list(unmeasured_lines(table, question))
    if len(suites) == 1 and not concluded and suites[0][1].variants:
        [(_, results)] = suites
        screen.grid = grid_of(results)
        has_stars = any("*" in cell for cells in screen.grid.rows for cell in cells)
        screen.confidence = [confidence_of(results, screen.answers, has_stars)]
        screen.next_steps = next_steps_of(results, is_mostly_disturbed(table))
        screen.subject = list(subject_of(results))
        screen.terms = terms_in(screen, results.question)
    elif len(suites) > 1:
        names = ", ".join(name for name, _ in suites)
        hint = f"One suite's table: --where 'suite == \"{suites[0][0]}\"' (of {names})"
        screen.next_steps = [hint]
    screen.caveats = list(caveats(table, question, [results for _, results in suites]))
    screen.next_steps = [*log_of_failure(table), *screen.next_steps, *next_steps]
    return screen


def is_mostly_disturbed(table: pd.DataFrame) -> bool:
    """Return whether other processes or machines, not only a quota, disturbed most cases."""
    disturbed = table.loc[table["status"] == "ok", "disturbed"]
    return 2 * sum(map(is_by_others, disturbed)) > len(disturbed)


def log_of_failure(table: pd.DataFrame) -> Iterator[str]:
    """Yield the log of the first failed point, if its rank left one."""
    of_rank = table[["path", "failed_rank"]].notna().all(axis=1)
    failed = table[~table["status"].isin(["ok", *HARMLESS]) & of_rank]
    for path, rank, status in zip(
        failed["path"], failed["failed_rank"].astype(int), failed["status"], strict=True
    ):
        log = Path(path).parent / f"rank_{rank}.log"
        if log.is_file() and log.stat().st_size:
            yield f"First, why {status}: {log}"
            return


def next_steps_of(results: SuiteResults, is_disturbed: bool) -> list[str]:
    """Return what to add to the command, and what else the suite suggests."""
    factors = results.comparison.factors if results.comparison else ()
    varied = {*results.problem_columns, *factors} - {*results.shared}
    suggested = [
        text for key, text in results.question.next_steps.items() if key not in varied and key
    ]
    is_one_run = all(int(variant.row.get("num_runs") or 1) == 1 for variant in results.variants)
    num_compared = max(
        sum(variant.is_candidate for variant in group) for group in results.by_problem.values()
    )
    fewest = fewest_values(bonferroni_alpha(num_compared - 1))
    added = [*([f"repeat={fewest} (fresh runs)"] if is_one_run else []), *suggested[:1]]
    where = ", on a quiet machine" if is_disturbed else ""
    command = [f"Next{where}, add to the command: {' or '.join(added)}"] if added else []
    return [*command, *filter(None, [results.question.next_steps.get("")])]


def terms_in(screen: Screen, question: Question) -> list[str]:
    """Return a line with the meanings of the terms on a screen."""
    text = screen.text()
    used = [f"{name}: {means}" for name, means in question.terms.items() if name in text]
    return ["; ".join(used)] if used else []


def subject_of(results: SuiteResults) -> Iterator[str]:
    """Yield the suite's summary, and settings of all cases: "gloo, 2 ranks, float32, AMD EPYC"."""
    row = results.variants[0].row
    if summary := summaries().get(row["suite"], "").rstrip("."):
        yield summary
    backend = ["backend"] if row["world_size"] > 1 else []
    names = [*backend, "world_size", *results.question.problem, "device_name"]
    if RANKS[0] in (results.comparison.factors if results.comparison else ()):
        names.remove("world_size")  # cases have some of the ranks
    shared_cells = {
        name: row[name] for name in names if name in results.shared and not pd.isna(row[name])
    }
    words = [title_of(results.variants)]
    words += [results.format_value(name, value) for name, value in shared_cells.items() if value]
    cores = {
        (num_job_cores(variant.row), variant.row["threads_per_rank"])
        for variant in results.variants
    }
    if len(cores) == 1:
        [(num_cores, threads)] = cores
        words.append(f"{num_cores} cores, {threads} thread{'s' * (threads > 1)} a rank")
    yield ", ".join(dict.fromkeys(filter(None, words)))


# Confidence and caveats


def confidence_of(results: SuiteResults, answers: Sequence[str], has_stars: bool) -> str:
    """Describe the intervals of times and speedups, and what they do not cover.

    Args:
        answers: what these say is not repeated.
    """
    said = " ".join(answers)
    rows = [variant.row for variant in results.variants]
    is_one_run = all(int(row.get("num_runs") or 1) == 1 for row in rows)
    parts = [
        *describe_time_intervals(results.time_column, rows),
        *describe_speedup_intervals(results, said),
    ]
    if has_stars:
        parts.append("*: none is ahead of it")
    confounded = confounded_words(results)
    if confounded not in said and any(variant.speedup for variant in results.variants):
        parts.append(f"{confounded} between the variants, too")
    if results.pooled:
        parts.append(f"pooled: {', '.join(pooled_words(results))}")
    if results.is_stand_in:
        parts.append("the baseline of the suite is missing: the first variant stands in")
    floors = {row["noise_floor"] for row in rows if str(row["title"]) in str(row["noise_floor"])}
    if len(floors) == 1:
        parts.append(f"identical runs differ by {floors.pop()}")
    if all(pd.isna(row.get("unchecked")) for row in rows):
        parts.append("results checked")
    within = " within one run" if is_one_run else ""
    return f"How sure{within}: {'; '.join(parts)}"


def describe_time_intervals(time: str, rows: Sequence[Row]) -> Iterator[str]:
    """Describe the intervals or ranges beside times, and their widths."""
    intervals = [(interval, row[time]) for row in rows if (interval := interval_of(time, row))]
    widths = [max(high / middle, 2 - low / middle) - 1 for (low, high), middle in intervals]
    widths = [width for width in widths if width > 0]  # one sample has none
    if widths:
        middle, most = plus_minus(median(widths)), plus_minus(max(widths))
        at_most = f", at most {most}" if most != middle else ""
        names = (*interval_columns(time), "num_runs", "num_points", "num_samples", "num_turns")
        frame = fill_with_ranges(
            pd.DataFrame([{name: row.get(name) for name in names} for row in rows])
        )
        bars = describe_error_bars(frame, interval_columns(time)[0])
        yield f"times to {middle}{at_most} ({bars})"


def describe_speedup_intervals(results: SuiteResults, said: str) -> Iterator[str]:
    """Describe the samples of the intervals of speedups, and why some have none."""
    speedups = [variant.speedup for variant in results.variants if variant.speedup]
    kinds: dict[tuple[bool, str], list[int]] = {}
    for speedup in speedups:
        if speedup.basis:
            count, unit = speedup.basis.split(" ", 1)
            kinds.setdefault((speedup.is_interval, unit), []).append(int(count))
    texts = [
        f"{'[95 %]' if is_interval else 'range'} over {format_count_range(pd.Series(counts))} "
        + (unit if max(counts) > 1 else unit.replace("s", "", 1))
        for (is_interval, unit), counts in sorted(kinds.items(), reverse=True)
    ]
    if texts:
        sizes = [
            sum(variant.speedup is not None for variant in group)
            for group in results.by_problem.values()
        ]
        at_once = f", {max(sizes)} compared at once" if max(sizes) > 1 else ""
        yield f"speedups {', else '.join(texts)}{at_once}"
    unjudged = {speedup.why_not_judged for speedup in speedups if not speedup.basis}
    if unsaid := sorted(reason for reason in unjudged if reason not in said):
        yield f"speedups not judged: {' or '.join(unsaid)}"
    if any(differs_from_times(results.time_column, variant) for variant in results.variants):
        yield "some speedups are of the runs that have both, and not of the times beside them"


def differs_from_times(time: str, variant: Variant) -> bool:
    """Return whether a speedup is not the ratio of the times beside it."""
    speedup = variant.speedup
    if not speedup:
        return False
    beside = variant.row[time], speedup.reference.row[time]
    pairs = zip(speedup.times_s, beside, strict=True)
    return any(abs(time_s / shown_s - 1) > ROUNDING for time_s, shown_s in pairs)


def pooled_words(results: SuiteResults) -> Iterator[str]:
    """Yield the conditions whose rows are pooled; hosts by their names."""
    for name, values in results.pooled.items():
        yield f"hosts {join_names(values)}" if name == "host" else f"{len(values)} {name}s"


def unmeasured_lines(table: pd.DataFrame, question: Question) -> Iterator[str]:
    """Yield a line per reason of unmeasured cases, failures first; of many, a line per status."""
    failed = table[table["status"] != "ok"]
    lines = reasons(failed).map(first_line)
    counts = Counter(zip(failed["status"], lines, strict=True)).most_common()
    by_status: dict[str, list[tuple[str, int]]] = {}
    for (status, reason), count in sorted(counts, key=lambda item: item[0][0] in HARMLESS):
        by_status.setdefault(status, []).append((reason, count))
    is_long = len(counts) > MOST_REASONS
    for status, reasons_of_status in by_status.items():
        for reason, count in reasons_of_status[:1] if is_long else reasons_of_status:
            num = sum(count for _, count in reasons_of_status) if is_long else count
            others = (
                f" (and {len(reasons_of_status) - 1} other reasons)"
                if is_long and len(reasons_of_status) > 1
                else ""
            )
            rows_of_reason = failed[(failed["status"] == status) & (is_long | (lines == reason))]
            settings = common_settings(rows_of_reason, table, question)
            where = f" ({settings})" if settings else ""
            noun = "point" if rows_of_reason["is_component"].isna().all() else "case"
            yield f"{num} {noun}{'s' * (num > 1)}{where} {status}: {reason}{others}"


def common_settings(rows: pd.DataFrame, table: pd.DataFrame, question: Question) -> str:
    """Return the settings that all of some rows have, but not all of a table: "slowdown 1"."""
    names = dict.fromkeys(("backend", "world_size", *suite_columns(table)))
    common = {name: rows[name].iloc[0] for name in names if count_distinct(rows, name) == 1}
    distinguishing = {
        name: value for name, value in common.items() if count_distinct(table, name) > 1
    }
    return ", ".join(
        question.format_value(*item) for item in distinguishing.items() if not pd.isna(item[1])
    )


def caveats(
    table: pd.DataFrame, question: Question, suites: Sequence[SuiteResults]
) -> Iterator[str]:
    """Yield what lowers the trust in the answer, the worst first.

    Args:
        suites: results of each suite. An answer that leaves out oversubscribed ranks says so.
    """
    measured = table[table["status"] == "ok"]
    lines = list(islice((text for results in suites for text in mean_contradictions(results)), 1))
    is_left_out = any(
        results.is_beyond_cores(variant) for results in suites for variant in results.variants
    )
    if (ranks := oversubscribed_ranks(measured)) and not is_left_out:
        lines.append(ranks.capitalize())
    for name, adjective in (
        ("doubt", "doubtful"),
        ("disturbed", "disturbed"),
        ("unchecked", "unchecked"),
    ):
        marked = measured[measured[name].notna()]
        if len(marked):
            counts = Counter(map(shorten_reason, marked[name]))
            text = max(counts, key=lambda text: (worst_share(text), counts[text]))
            settings = common_settings(marked, measured, question)
            where = f" ({settings})" if settings else ""
            lines.append(f"{len(marked)} of {len(measured)} cases{where} {adjective}: {text}")
    shares = measured["spikes_all_share"] + measured["spikes_some_share"]
    spiky = shares[(shares > SPIKY_SHARE) & (measured["mean_s"] > APART * measured["median_s"])]
    if len(spiky):
        num, most = len(spiky), percent(spiky.max())
        lines.append(
            f"{num} of {len(measured)} cases have spikes: up to {most} of the calls take over "
            f"{SPIKE:g} times the median"
        )
    warned = Counter(
        map(shorten_reason, measured.drop_duplicates(["point_id", "run"])["warning"].dropna())
    )
    lines += [f"Warning: {text}" for text, _ in warned.most_common(2)]
    yield from lines[:MOST_CAVEATS]
    if len(lines) > MOST_CAVEATS:
        yield f"and {len(lines) - MOST_CAVEATS} more"


def worst_share(text: str) -> float:
    """Return the largest percentage in a text, 0 without any."""
    return max(map(float, re.findall(r"([\d.]+) ?%", text)), default=0.0)


def mean_contradictions(results: SuiteResults) -> Iterator[str]:
    """Yield a line per variant that is ahead by medians, not by means, which count long calls."""
    for standing in results.standings.values():
        fastest = standing.fastest
        for other, judgement in standing.judgements:
            means = [
                variant.row["mean_s"] / variant.row["median_s"] for variant in (fastest, other)
            ]
            by_mean = speedup_between(fastest, other) * means[1] / means[0]
            if judgement == AHEAD and by_mean < 1:
                yield (
                    f"{fastest.name} is ahead of {other.name} by medians, and takes "
                    f"{format_number(1 / by_mean, 0.01 / by_mean)} times as long by means: "
                    "some calls of it take very long"
                )


def speedup_between(first: Variant, other: Variant) -> float:
    return other.relative_time / first.relative_time
