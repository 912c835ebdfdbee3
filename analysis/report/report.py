"""Write all files of a report: its texts, the tables of suites, and the figures."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from analysis.report import sentences, style
from analysis.report.chart import PAGE_ROW, Charts
from analysis.report.choice import MOST_FIGURES
from analysis.report.draw import draw_all
from analysis.report.parts import ReportData
from analysis.report.speedups import as_table
from analysis.report.tables import full_results, rank_results, summary_by_config
from analysis.shared.discover import make_or_leave_out
from analysis.shared.output import FileContent, file_name, write
from analysis.table.combine import ROUNDS
from analysis.table.repetitions import aggregate_repetitions


def write_report(
    parts: ReportData,
    folder: Path,
    formats: Sequence[str] = style.FORMATS[:1],
    most_figures: int | None = MOST_FIGURES,
) -> Iterator[Path]:
    """Yield each file as it is written; skip one that fails, with a line on stderr.

    Args:
        formats: file formats of figures, some of `style.FORMATS`.
        most_figures: largest number of figures; None for all.

    Raises:
        OSError: the folder is not writable.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, make_content in texts_of(parts):
        content = make_or_leave_out(name, make_content)
        if content is not None:
            yield write(folder, name, content)
    for name, text in parts.texts.items():
        yield write(folder, name, text)
    if not parts.measured.empty:
        yield from write_figures(parts.charts, folder, formats, most_figures)


def texts_of(parts: ReportData) -> Iterator[tuple[str, Callable[[], FileContent | None]]]:
    """Yield the name of each file on all suites, and what returns its content or None."""
    table, per_rank = parts.table, parts.per_rank
    yield "combined.csv", lambda: table.drop(columns=[ROUNDS, PAGE_ROW], errors="ignore")
    yield "full_results.md", lambda: full_results(aggregate_repetitions(table))
    yield "summary_by_config.md", lambda: summary_by_config(table, parts.points)
    yield "analysis.txt", lambda: analysis_text(parts)
    yield sentences.FILE_NAME, lambda: sentences.as_markdown(parts.noise)
    if not per_rank.empty:
        yield "per_rank.csv", lambda: per_rank
        yield "per_rank.md", lambda: rank_results(per_rank)
        yield "rank_devices.md", lambda: parts.rank_devices
    yield "turns.md", lambda: parts.turns
    yield "speedups.csv", lambda: as_table(table, parts.baseline)


def analysis_text(parts: ReportData) -> str:
    """Return the first screen, and below it all findings."""
    parts_of_text = parts.screen.text(), sentences.describe(parts.findings)
    return "\n\n".join(filter(None, parts_of_text))


def write_figures(
    charts: Mapping[str, Charts], folder: Path, formats: Sequence[str], most: int | None
) -> Iterator[Path]:
    """Draw and write one figure after the other; yield the files of each."""
    style.apply()
    for name, figure in draw_all(charts, make_or_leave_out, most):
        save = partial(style.save, figure, folder / file_name(name), formats)
        yield from make_or_leave_out(f"plot {name}", save) or ()
