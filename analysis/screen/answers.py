"""The answer to a suite's question in one to four lines, each with its judgement."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

import pandas as pd

from analysis.records.results import Row
from analysis.screen.grid import (
    format_metric,
    format_speedup,
    has_metric,
    is_beyond_ideal,
    known_half_width,
    metrics_of,
    time_metric,
)
from analysis.shared.text import format_bounds, format_number, three_digits
from analysis.table.combine import describe_job
from analysis.table.speedup import Speedup, Standing, Variant
from analysis.table.variants import SuiteResults, num_case_ranks
from benchkit.api.question import LEAST, Metric
from benchkit.record.naming import oversubscription, percent, plus_minus
from benchkit.statistics.judgement import (
    AHEAD,
    BEHIND,
    MARGIN,
    NOT_JUDGED,
    TIED,
    UNCLEAR,
    judge_speedup,
)

MOST_ANSWERS = 4
MOST_NAMES = 3
BEYOND_IDEAL = "beyond ideal"
WORDS = {TIED: f"tied (± {percent(MARGIN)})"}
"""Words for judgements, where these are not printed themselves."""
JOINTS = {TIED: "with", UNCLEAR: "against", NOT_JUDGED: "against", BEHIND: "of"}
IN_ORDER = (AHEAD, BEYOND_IDEAL, TIED, BEHIND, UNCLEAR, NOT_JUDGED)


def title_of(variants: Sequence[Variant]) -> str:
    """Return the title that some variants share; the suite's name where they differ."""
    titles = {
        str(variant.row["title"]) for variant in variants if not pd.isna(variant.row["title"])
    }
    return titles.pop() if len(titles) == 1 else str(variants[0].row["suite"])


def answers_of(results: SuiteResults) -> Iterator[str]:
    """Yield the answer to a suite's question, one line per kind of problem."""
    within = [variant for variant in results.variants if not results.is_beyond_cores(variant)]
    compared = [variant for variant in within if variant.is_candidate]
    if not any(variant.speedup for variant in compared):
        yield from plain_answers(results, within)
    elif results.is_curve:
        yield from curve_answers(results, compared)
    else:
        yield from comparison_answers(results, compared)
    if beyond := [variant.row for variant in results.variants if results.is_beyond_cores(variant)]:
        jobs = (describe_job(num_case_ranks(row), row) for row in beyond)
        yield f"Left out, {oversubscription(jobs)}"


def group_variants(
    results: SuiteResults, variants: Sequence[Variant], without: Sequence[str] = ()
) -> Iterator[tuple[list[str], list[Variant]]]:
    """Yield groups of variants with one answer each, and the words that distinguish each group.

    Group by the columns of the problem, except `without`, as long as there are MOST_ANSWERS groups
    at most.
    """
    columns: list[str] = []
    for name in results.problem_columns:
        more_columns = [*columns, name]
        if name not in without and num_of_groups(variants, more_columns) <= MOST_ANSWERS:
            columns = more_columns
    groups: dict[tuple[str, ...], list[Variant]] = {}
    for variant in variants:
        groups.setdefault(tuple(words_at(results, variant.row, columns)), []).append(variant)
    for words, group in groups.items():
        yield list(filter(None, words)), group


def num_of_groups(variants: Sequence[Variant], columns: Sequence[str]) -> int:
    return len({tuple(str(variant.row[name]) for name in columns) for variant in variants})


def words_at(results: SuiteResults, row: Row, columns: Sequence[str]) -> list[str]:
    return ["" if pd.isna(row[name]) else results.format_value(name, row[name]) for name in columns]


def setting_of(results: SuiteResults, row: Row, said: Sequence[str]) -> list[str]:
    """Return the words that distinguish a problem in the table, except those in `said`."""
    columns = list(dict.fromkeys((*results.scale, *results.problem_columns)))
    return [word for word in words_at(results, row, columns) if word and word not in said]


def comparison_answers(results: SuiteResults, compared: Sequence[Variant]) -> Iterator[str]:
    focus = [variant for variant in compared if variant.is_focus and variant.speedup]
    focus = focus or [variant for variant in compared if variant.speedup]
    is_about_focus = len({variant.name for variant in focus}) == 1
    answer = focus_answer if is_about_focus else fastest_answer
    among = focus if is_about_focus else compared
    for words, group in group_variants(results, among, results.scale):
        yield answer(results, group, words)


def curve_answers(results: SuiteResults, compared: Sequence[Variant]) -> Iterator[str]:
    """Yield how the speed changes along the factor, at the end of the scale."""
    for words, group in group_variants(results, compared, results.scale):
        at_end = at_largest_scale(results, group)
        baseline = next((variant for variant in at_end if variant.is_baseline), None)
        parts = [
            f"{format_number(variant.speedup.value, known_half_width(variant.speedup))} × as fast "
            f"at {variant.name}"
            for variant in at_end
            if variant.speedup
        ]
        if baseline and parts:
            head = ", ".join([title_of(group), *words, *setting_of(results, baseline.row, words)])
            time = format_metric(time_metric(results), baseline.row)
            yield f"{head}: {time} at {baseline.name}, {', '.join(parts)}"


def focus_answer(results: SuiteResults, variants: Sequence[Variant], words: Sequence[str]) -> str:
    """Describe one variant, in its only setting or in several.

    Several settings are summarized by their median only if all speedups lie on the same side of 1.
    """
    where = "".join(f", {word}" for word in words)
    name = variants[0].name
    speedups = [(variant, variant.speedup) for variant in variants if variant.speedup]
    if len(speedups) == 1:
        [(variant, speedup)] = speedups
        metrics = (format_metric(metric, variant.row) for metric in metrics_of(results))
        time, *other_metrics = filter(None, metrics)
        at = ", ".join(setting_of(results, variant.row, words))
        place = f" at {at}" if at else ""
        times_as_fast = f"{format_speedup(speedup)}{format_interval(results, speedup)}"
        text = f"{name}: {time}, {times_as_fast}{where}{place}"
        text += "".join(f", {metric}" for metric in other_metrics)
        return f"{text}{format_judgement(results, variant, speedup)}"
    values = [speedup.value for _, speedup in speedups]
    references = " or ".join(dict.fromkeys(speedup.reference.name for _, speedup in speedups))
    judged: dict[str, list[float]] = {}
    for variant, speedup in speedups:
        judged.setdefault(judge_scaling(results, variant, speedup), []).append(speedup.value)
    is_judged, agree = [*judged] != [NOT_JUDGED], not min(values) < 1 < max(values)
    value, summary = ([median(values)], "the median of") if is_judged and agree else (values, "in")
    text = f"{name}: {format_range(value)} × as fast as {references}{where}"
    text += f"; {summary} {len(values)} settings"
    if not is_judged:
        why = explain_not_judged(results, [speedup for _, speedup in speedups])
        return f"{text}, not judged{why}"
    counts = [
        f"{WORDS.get(word, word)} in {len(judged[word])} ({format_range(judged[word])})"
        for word in IN_ORDER
        if word in judged
    ]
    scopes = dict.fromkeys(scope(speedup) for _, speedup in speedups if speedup.is_interval)
    return f"{text}: {' or '.join(scopes)} {', '.join(counts)}"


def judge_scaling(results: SuiteResults, variant: Variant, speedup: Speedup) -> str:
    """Judge a speedup; return BEYOND_IDEAL if it exceeds linear scaling."""
    if speedup.judgement == AHEAD and results.is_scaling and speedup.interval_or_range:
        ideal = num_case_ranks(variant.row) / num_case_ranks(speedup.reference.row)
        low, high = speedup.interval_or_range
        if judge_speedup(low / ideal, high / ideal) == AHEAD:
            return BEYOND_IDEAL
    return speedup.judgement


def format_range(values: Sequence[float]) -> str:
    """Format "1.13 to 1.42", or the only value."""
    return " to ".join(dict.fromkeys(map(three_digits, (min(values), max(values)))))


def format_interval(results: SuiteResults, speedup: Speedup) -> str:
    """Format the interval of a speedup: " [1.1, 1.3]", or its range and why it is not judged."""
    if not speedup.interval_or_range:
        return f" (not judged{explain_not_judged(results, [speedup])})"
    low, high = format_bounds(*speedup.interval_or_range, known_half_width(speedup), speedup.value)
    if speedup.is_interval:
        return f" [{low}, {high}]"
    return f" ({low} to {high}, {speedup.why_not_judged})"


def explain_not_judged(results: SuiteResults, speedups: Sequence[Speedup]) -> str:
    """Describe why speedups are not judged, and the confounded conditions."""
    texts = dict.fromkeys(speedup.why_not_judged for speedup in speedups if speedup.why_not_judged)
    why = " or ".join(texts)
    confounded = confounded_words(results)
    return f": {why}, and {confounded}" if confounded else f": {why}"


def confounded_words(results: SuiteResults) -> str:
    """Name the conditions confounded with the factors: "device, host differ"; "" for none."""
    names = results.confounded
    return f"{', '.join(names)} {'differs' if len(names) == 1 else 'differ'}" if names else ""


def format_judgement(results: SuiteResults, variant: Variant, speedup: Speedup) -> str:
    """Format the judgement of a speedup, and its scope: "; ahead in this run"."""
    judgement = judge_scaling(results, variant, speedup)
    if judgement == NOT_JUDGED:
        return ""
    return f"; {WORDS.get(judgement, judgement)} {scope(speedup)}"


def scope(speedup: Speedup) -> str:
    """Describe the scope of a judgement, and the noise floor where it exceeds the speedup."""
    if not speedup.is_within_run:
        return f"over {speedup.basis}"
    floor = speedup.reference.row.get("identical_runs")
    differs = max(speedup.value, 1 / speedup.value) - 1
    if floor is not None and not pd.isna(floor) and differs < floor:
        return f"in this run; identical runs differ by {plus_minus(floor)}"
    return "in this run"


def fastest_answer(results: SuiteResults, variants: Sequence[Variant], words: Sequence[str]) -> str:
    """Name the fastest variant at the end of the scale, and how often one is ahead of all."""
    where = "".join(f", {word}" for word in words)
    numbers = dict.fromkeys(variant.problem_number for variant in variants)
    standing = results.standings[at_largest_scale(results, variants)[-1].problem_number]
    fastest, speedup = standing.fastest, standing.fastest.speedup
    rows = [variant.row for variant in variants]
    metrics = [m for m in metrics_of(results) if not any(is_beyond_ideal(m, r) for r in rows)]
    time, *other_metrics = filter(None, (format_metric(metric, fastest.row) for metric in metrics))
    at = setting_of(results, fastest.row, words)
    place = f" at {', '.join(at)}" if at else ""
    speedup_words = (
        format_speedup(speedup)
        + (format_interval(results, speedup) if speedup.interval_or_range else "")
        if speedup
        else "the baseline"
    )
    rivals = rivals_of(standing)
    name = f"{fastest.name} ({rivals})" if rivals else fastest.name
    clauses = [", ".join((f"{name}: {time}", f"{speedup_words}{where}{place}", *other_metrics))]
    if ahead := len(standing.names_judged(AHEAD)):
        count_words = f"all {ahead} others" if standing.is_ahead_of_all else str(ahead)
        judged = speedup or next(
            variant.speedup for variant, _ in standing.judgements if variant.speedup
        )
        clauses.append(f"ahead of {count_words} {scope(judged)}")
    if len(numbers) > 1 and not standing.reason:
        standings = [results.standings[number] for number in numbers]
        leads = Counter(other.fastest.name for other in standings if other.is_ahead_of_all)
        for leader, count in leads.most_common(1):
            clauses.append(f"{leader} is ahead of all in {count} of {len(numbers)} settings")
    return "; ".join(clauses)


def rivals_of(standing: Standing) -> str:
    """Name the variants that the fastest one is not ahead of: "tied (± 5 %) with lut"."""
    if standing.reason:
        speedup = standing.fastest.speedup
        is_shown = speedup and speedup.interval_or_range
        return "not judged" if is_shown else f"not judged: {standing.reason}"
    names_by_judgement = ((judgement, standing.names_judged(judgement)) for judgement in JOINTS)
    parts = (
        f"{WORDS.get(judgement, judgement)} {JOINTS[judgement]} {join_names(names)}"
        for judgement, names in names_by_judgement
        if names
    )
    return ", ".join(parts)


def join_names(names: Sequence[str]) -> str:
    rest = [f"{len(names) - MOST_NAMES} more"] * (len(names) > MOST_NAMES)
    return ", ".join([*names[:MOST_NAMES], *rest])


def at_largest_scale(results: SuiteResults, variants: Sequence[Variant]) -> list[Variant]:
    """Return the variants at the end of the scale: the largest number, or the last text."""
    at_end = list(variants)
    for name in results.scale:
        at_end = variants_at_end(at_end, name)
    return at_end


def variants_at_end(
    variants: Sequence[Variant], name: str, is_least: bool = False
) -> list[Variant]:
    """Return the variants at the end of a column: an extreme number, or the first or last text."""
    values = [variant.row[name] for variant in variants]
    if all(isinstance(value, int | float) for value in values):
        values.sort()
    end = values[:1] if is_least else values[-1:]
    return [variant for variant in variants if variant.row[name] in end]


def plain_answers(results: SuiteResults, within: Sequence[Variant]) -> Iterator[str]:
    """Yield the answer where nothing is compared: each metric at its end of the scale."""
    question, scale = results.question, results.scale
    across = question.panel_column if question.panel_column in results.problem_columns else ""
    of_metrics = {name for metric in question.metrics for name in metric.row_filter}
    is_beside = bool(across) and not of_metrics
    excluded = [*(scale if is_beside else scale[:1]), across, *of_metrics]
    for words, group in group_variants(results, within, excluded):
        remaining = [name for name in results.problem_columns if name not in excluded]
        varied = [name for name in remaining if num_of_groups(group, [name]) > 1]
        head = [title_of(group), *words]
        if is_beside:
            head += setting_of(results, at_largest_scale(results, group)[-1].row, words)
            parts = panel_parts(results, group, across)
        else:
            head += (f"{num_of_groups(group, [name])} {name.replace('_', ' ')}s" for name in varied)
            parts = metric_parts(results, group)
        yield f"{', '.join(dict.fromkeys(head))}: {', '.join(parts)}"


def metrics_at_scale_end(
    results: SuiteResults, variants: Sequence[Variant]
) -> Iterator[tuple[Metric, list[Variant]]]:
    """Yield each metric, and the variants that have it at its end of the scale."""
    for metric in results.question.metrics:
        having = [variant for variant in variants if has_metric(metric, variant.row)]
        for name in results.scale[:1]:
            having = variants_at_end(having, name, metric.scale_end == LEAST)
        if having:
            yield metric, having


def metric_parts(results: SuiteResults, variants: Sequence[Variant]) -> Iterator[str]:
    """Yield each metric at its end of the scale, of several problems its range.

    For example "1.1 ms latency at 1 MiB", or "1.1 to 2.3 ms latency at 1 MiB".
    """
    for metric, having in metrics_at_scale_end(results, variants):
        row = having[0].row
        values = [metric.scale * float(variant.row[metric.column]) for variant in having]
        metric_range = " ".join(filter(None, (metric.head, format_range(values), metric.unit)))
        words = [results.format_value(name, value) for name, value in metric.row_filter.items()]
        at = [f"at {results.format_value(name, row[name])}" for name in results.scale[:1]]
        yield " ".join(
            [format_metric(metric, row) if len(having) == 1 else metric_range, *words, *at]
        )


def panel_parts(results: SuiteResults, variants: Sequence[Variant], across: str) -> Iterator[str]:
    """Yield the time of each value of a column, at the end of the scale: "forward 25 ms".

    The other metrics are of the last value.
    """
    time, *other_metrics = results.question.metrics
    at_end = [
        variant for variant in at_largest_scale(results, variants) if has_metric(time, variant.row)
    ]
    for variant in at_end:
        ratio = variant.row[time.column] / at_end[0].row[time.column]
        details = []
        if variant is not at_end[0]:
            details.append(f"{format_number(ratio, 0.05 * ratio)} × as long")
        if variant is at_end[-1]:
            details += [format_metric(metric, variant.row) for metric in other_metrics]
        beside_it = f" ({', '.join(filter(None, details))})" if any(details) else ""
        panel = results.format_value(across, variant.row[across])
        yield f"{panel} {format_metric(time, variant.row)}{beside_it}"
