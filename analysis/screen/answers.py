"""The answer to a suite's question in one to four lines, each with what is judged of it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

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
from analysis.table.combine import on_cores
from analysis.table.speedup import Speedup, Standing, Variant
from analysis.table.variants import SuiteResults, num_case_ranks
from benchkit.api.question import LEAST
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
"""What judgements are called, where not by themselves."""
JOINTS = {TIED: "with", UNCLEAR: "against", NOT_JUDGED: "against", BEHIND: "of"}
IN_ORDER = (AHEAD, BEYOND_IDEAL, TIED, BEHIND, UNCLEAR, NOT_JUDGED)


def title_of(own: Sequence[Variant]) -> str:
    """Return the title that some variants share; the suite's name where they differ."""
    titles = {str(each.row["title"]) for each in own if not pd.isna(each.row["title"])}
    return titles.pop() if len(titles) == 1 else str(own[0].row["suite"])


def answers_of(variants: SuiteResults) -> Iterator[str]:
    """Yield the answer to a suite's question, one line per kind of problem."""
    within = [each for each in variants.variants if not variants.is_beyond_cores(each)]
    compared = [each for each in within if each.is_candidate]
    if not any(each.speedup for each in compared):
        yield from plain_answers(variants, within)
    elif variants.is_curve:
        yield from curve_answers(variants, compared)
    else:
        yield from comparison_answers(variants, compared)
    if beyond := [each.row for each in variants.variants if variants.is_beyond_cores(each)]:
        yield f"Left out, {oversubscription(on_cores(num_case_ranks(row), row) for row in beyond)}"


def group_variants(
    variants: SuiteResults, own: Sequence[Variant], without: Sequence[str] = ()
) -> Iterator[tuple[list[str], list[Variant]]]:
    """Yield the variants that answer together, with the words of what tells them from others.

    These are the columns of the problem, but for those of `without`, as long as their values make
    MOST_ANSWERS groups at most.
    """
    columns: list[str] = []
    for name in variants.problem_columns:
        more = [*columns, name]
        if name not in without and num_of_groups(own, more) <= MOST_ANSWERS:
            columns = more
    found: dict[tuple[str, ...], list[Variant]] = {}
    for each in own:
        found.setdefault(tuple(words_at(variants, each.row, columns)), []).append(each)
    for words, group in found.items():
        yield list(filter(None, words)), group


def num_of_groups(own: Sequence[Variant], columns: Sequence[str]) -> int:
    return len({tuple(str(each.row[name]) for name in columns) for each in own})


def words_at(variants: SuiteResults, row: Row, columns: Sequence[str]) -> list[str]:
    return [
        "" if pd.isna(row[name]) else variants.format_value(name, row[name]) for name in columns
    ]


def setting_of(variants: SuiteResults, row: Row, said: Sequence[str]) -> list[str]:
    """Return what tells a problem from the others of the table, but for what is said already."""
    scale = [name for name in variants.question.scaling_columns if name in variants.problem_columns]
    columns = [*scale, *(name for name in variants.problem_columns if name not in scale)]
    return [word for word in words_at(variants, row, columns) if word and word not in said]


def comparison_answers(variants: SuiteResults, compared: Sequence[Variant]) -> Iterator[str]:
    focus = [each for each in compared if each.is_focus and each.speedup]
    focus = focus or [each for each in compared if each.speedup]
    is_duel = len({each.name for each in focus}) == 1
    scale = variants.question.scaling_columns
    for words, own in group_variants(variants, focus if is_duel else compared, scale):
        yield (
            focus_answer(variants, own, words) if is_duel else fastest_answer(variants, own, words)
        )


def curve_answers(variants: SuiteResults, compared: Sequence[Variant]) -> Iterator[str]:
    """Yield how the speed changes along the factor, at the end of the scale."""
    for words, own in group_variants(variants, compared, variants.question.scaling_columns):
        last = at_largest_scale(variants, own)
        base = next((each for each in last if each.is_baseline), None)
        parts = [
            f"{format_number(each.speedup.value, known_half_width(each.speedup))} × as fast "
            f"at {each.name}"
            for each in last
            if each.speedup
        ]
        if base and parts:
            head = ", ".join([title_of(own), *words, *setting_of(variants, base.row, words)])
            time = format_metric(time_metric(variants), base.row)
            yield f"{head}: {time} at {base.name}, {', '.join(parts)}"


def focus_answer(variants: SuiteResults, own: Sequence[Variant], words: Sequence[str]) -> str:
    """Say how one variant does, in its only setting or in several.

    The middle of several settings is told where they agree: where one gains and one loses, it is
    that of no setting.
    """
    where = "".join(f", {word}" for word in words)
    name = own[0].name
    speedups = [(each, each.speedup) for each in own if each.speedup]
    if len(speedups) == 1:
        [(variant, speedup)] = speedups
        metrics = (format_metric(metric, variant.row) for metric in metrics_of(variants))
        time, *more = filter(None, metrics)
        at = ", ".join(setting_of(variants, variant.row, words))
        place = f" at {at}" if at else ""
        times_as_fast = f"{format_speedup(speedup)}{format_interval(variants, speedup)}"
        text = f"{name}: {time}, {times_as_fast}{where}{place}"
        text += "".join(f", {each}" for each in more)
        return f"{text}{format_judgement(variants, variant, speedup)}"
    values = [speedup.value for _, speedup in speedups]
    over = " or ".join(dict.fromkeys(speedup.reference.name for _, speedup in speedups))
    judged: dict[str, list[float]] = {}
    for variant, speedup in speedups:
        judged.setdefault(judge_scaling(variants, variant, speedup), []).append(speedup.value)
    is_judged, agree = [*judged] != [NOT_JUDGED], not min(values) < 1 < max(values)
    value, of = ([median(values)], "the median of") if is_judged and agree else (values, "in")
    text = f"{name}: {format_range(value)} × as fast as {over}{where}; {of} {len(values)} settings"
    if not is_judged:
        why = explain_not_judged(variants, [speedup for _, speedup in speedups])
        return f"{text}, not judged{why}"
    counts = [
        f"{WORDS.get(word, word)} in {len(judged[word])} ({format_range(judged[word])})"
        for word in IN_ORDER
        if word in judged
    ]
    scopes = dict.fromkeys(scope(speedup) for _, speedup in speedups if speedup.is_interval)
    return f"{text}: {' or '.join(scopes)} {', '.join(counts)}"


def judge_scaling(variants: SuiteResults, variant: Variant, speedup: Speedup) -> str:
    """Return the judgement of a speedup; BEYOND_IDEAL where it is ahead of one per rank."""
    if speedup.judgement == AHEAD and variants.is_scaling and speedup.interval_or_range:
        ideal = num_case_ranks(variant.row) / num_case_ranks(speedup.reference.row)
        low, high = speedup.interval_or_range
        if judge_speedup(low / ideal, high / ideal) == AHEAD:
            return BEYOND_IDEAL
    return speedup.judgement


def format_range(values: Sequence[float]) -> str:
    """Format "1.13 to 1.42", or the only value."""
    return " to ".join(dict.fromkeys(map(three_digits, (min(values), max(values)))))


def format_interval(variants: SuiteResults, speedup: Speedup) -> str:
    """Format what is known of a speedup: " [1.1, 1.3]", or a range and why nothing is judged."""
    if not speedup.interval_or_range:
        return f" (not judged{explain_not_judged(variants, [speedup])})"
    low, high = format_bounds(*speedup.interval_or_range, known_half_width(speedup), speedup.value)
    if speedup.is_interval:
        return f" [{low}, {high}]"
    return f" ({low} to {high}, {speedup.why_not_judged})"


def explain_not_judged(variants: SuiteResults, found: Sequence[Speedup]) -> str:
    """Say why speedups are not judged, and what else differs between the variants."""
    texts = dict.fromkeys(speedup.why_not_judged for speedup in found if speedup.why_not_judged)
    why = " or ".join(texts)
    others = confounded_words(variants)
    return f": {why}, and {others}" if others else f": {why}"


def confounded_words(variants: SuiteResults) -> str:
    """Return which conditions differ as the variants do: "device, host differ"; "" for none."""
    names = variants.confounded
    return f"{', '.join(names)} {'differs' if len(names) == 1 else 'differ'}" if names else ""


def format_judgement(variants: SuiteResults, variant: Variant, speedup: Speedup) -> str:
    """Say what is judged of a speedup, and of what: "; ahead in this run"."""
    word = judge_scaling(variants, variant, speedup)
    if word == NOT_JUDGED:
        return ""
    return f"; {WORDS.get(word, word)} {scope(speedup)}"


def scope(speedup: Speedup) -> str:
    """Say what a claim is of, and what runs differ by where that is more than the speedup."""
    if not speedup.is_within_run:
        return f"over {speedup.basis}"
    floor = speedup.reference.row.get("identical_runs")
    differs = max(speedup.value, 1 / speedup.value) - 1
    if floor is not None and not pd.isna(floor) and differs < floor:
        return f"in this run; identical runs differ by {plus_minus(floor)}"
    return "in this run"


def fastest_answer(variants: SuiteResults, own: Sequence[Variant], words: Sequence[str]) -> str:
    """Say which variant is the fastest at the end of the scale, and how often one leads."""
    where = "".join(f", {word}" for word in words)
    numbers = dict.fromkeys(each.problem_number for each in own)
    standing = variants.standings[at_largest_scale(variants, own)[-1].problem_number]
    first, speedup = standing.fastest, standing.fastest.speedup
    rows = [each.row for each in own]
    metrics = [m for m in metrics_of(variants) if not any(is_beyond_ideal(m, r) for r in rows)]
    time, *more = filter(None, (format_metric(metric, first.row) for metric in metrics))
    at = setting_of(variants, first.row, words)
    place = f" at {', '.join(at)}" if at else ""
    over = (
        format_speedup(speedup)
        + (format_interval(variants, speedup) if speedup.interval_or_range else "")
        if speedup
        else "the baseline"
    )
    rivals = rivals_of(standing)
    name = f"{first.name} ({rivals})" if rivals else first.name
    clauses = [", ".join((f"{name}: {time}", f"{over}{where}{place}", *more))]
    if ahead := len(standing.names_judged(AHEAD)):
        others = f"all {ahead} others" if standing.is_ahead_of_all else str(ahead)
        judged = speedup or next(each.speedup for each, _ in standing.judgements if each.speedup)
        clauses.append(f"ahead of {others} {scope(judged)}")
    if len(numbers) > 1 and not standing.reason:
        standings = [variants.standings[number] for number in numbers]
        leads = Counter(each.fastest.name for each in standings if each.is_ahead_of_all)
        for leader, count in leads.most_common(1):
            clauses.append(f"{leader} is ahead of all in {count} of {len(numbers)} settings")
    return "; ".join(clauses)


def rivals_of(standing: Standing) -> str:
    """Say which variants the fastest one is not ahead of: "tied (± 5 %) with lut"."""
    if standing.reason:
        of = standing.fastest.speedup
        return "not judged" if of and of.interval_or_range else f"not judged: {standing.reason}"
    named = ((word, standing.names_judged(word)) for word in JOINTS)
    parts = (
        f"{WORDS.get(word, word)} {JOINTS[word]} {join_names(names)}"
        for word, names in named
        if names
    )
    return ", ".join(parts)


def join_names(names: Sequence[str]) -> str:
    more = [f"{len(names) - MOST_NAMES} more"] * (len(names) > MOST_NAMES)
    return ", ".join([*names[:MOST_NAMES], *more])


def at_largest_scale(variants: SuiteResults, own: Sequence[Variant]) -> list[Variant]:
    """Return the variants that are the furthest along the scale: by number, words the last one."""
    found = list(own)
    for name in variants.question.scaling_columns:
        if name in variants.problem_columns and found:
            values = [each.row[name] for each in found]
            is_numeric = all(isinstance(value, int | float) for value in values)
            end = max(values) if is_numeric else values[-1]
            found = [each for each in found if each.row[name] == end]
    return found


def plain_answers(variants: SuiteResults, within: Sequence[Variant]) -> Iterator[str]:
    """Yield what was measured where nothing is compared: each metric at its end of the scale."""
    question = variants.question
    scale = [name for name in question.scaling_columns if name in variants.problem_columns]
    across = question.panel_column if question.panel_column in variants.problem_columns else ""
    of_metrics = {name for metric in question.metrics for name in metric.row_filter}
    is_beside = bool(across) and not of_metrics
    aside = [*(scale if is_beside else scale[:1]), across, *of_metrics]
    for words, own in group_variants(variants, within, aside):
        others = [name for name in variants.problem_columns if name not in aside]
        rest = [name for name in others if num_of_groups(own, [name]) > 1]
        head = [title_of(own), *words]
        if is_beside:
            head += setting_of(variants, at_largest_scale(variants, own)[-1].row, words)
            parts = panel_parts(variants, own, across)
        else:
            head += (f"{num_of_groups(own, [name])} {name.replace('_', ' ')}s" for name in rest)
            parts = metric_parts(variants, own)
        yield f"{', '.join(dict.fromkeys(head))}: {', '.join(parts)}"


def metric_ends(
    variants: SuiteResults, own: Sequence[Variant]
) -> Iterator[tuple[Any, list[Variant]]]:
    """Yield each metric, and the variants that have it at the end of the scale that is told."""
    scale = [
        name for name in variants.question.scaling_columns if name in variants.problem_columns
    ][:1]
    for metric in variants.question.metrics:
        having = [each for each in own if has_metric(metric, each.row)]
        if having and scale:
            [name] = scale
            values = [each.row[name] for each in having]
            is_numeric = all(isinstance(value, int | float) for value in values)
            if metric.scale_end == LEAST:
                end = min(values) if is_numeric else values[0]
            else:
                end = max(values) if is_numeric else values[-1]
            having = [each for each in having if each.row[name] == end]
        if having:
            yield metric, having


def metric_parts(variants: SuiteResults, own: Sequence[Variant]) -> Iterator[str]:
    """Yield each metric at its end of the scale, of several problems its range.

    For example "1.1 ms latency at 1 MiB", or "1.1 to 2.3 ms latency at 1 MiB".
    """
    scale = [
        name for name in variants.question.scaling_columns if name in variants.problem_columns
    ][:1]
    for metric, having in metric_ends(variants, own):
        row = having[0].row
        values = [metric.scale * float(each.row[metric.column]) for each in having]
        several = " ".join(filter(None, (metric.head, format_range(values), metric.unit)))
        words = [variants.format_value(name, value) for name, value in metric.row_filter.items()]
        at = [f"at {variants.format_value(name, row[name])}" for name in scale]
        yield " ".join([format_metric(metric, row) if len(having) == 1 else several, *words, *at])


def panel_parts(variants: SuiteResults, own: Sequence[Variant], across: str) -> Iterator[str]:
    """Yield the time of each value of a column, at the end of the scale: "forward 25 ms".

    The other metrics are of the last value.
    """
    time, *others = variants.question.metrics
    last = [each for each in at_largest_scale(variants, own) if has_metric(time, each.row)]
    for each in last:
        more = each.row[time.column] / last[0].row[time.column]
        known = [f"{format_number(more, 0.05 * more)} × as long"] if each is not last[0] else []
        known += [format_metric(metric, each.row) for metric in others] if each is last[-1] else []
        beside_it = f" ({', '.join(filter(None, known))})" if any(known) else ""
        panel = variants.format_value(across, each.row[across])
        yield f"{panel} {format_metric(time, each.row)}{beside_it}"
