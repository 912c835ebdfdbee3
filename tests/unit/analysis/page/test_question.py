"""The head of the page: what is asked, and the answer."""

from analysis.page.content import question_of, verdict_of

from tests.support.entries.report import findings
from tests.support.records import grid, make_record, make_rich_record, tabulate_records


def test_question_names_what_varies(golden):
    rings = [make_rich_record("ring_attention"), make_rich_record("ring_attention") | {"point_id": "other"}]
    rings[1]["config"] |= {"seq_len": 256}  # a setting of points comes before that of cases
    asked = [
        grid()[:1],
        grid()[:2],
        grid(),
        [make_record(), make_record(title="broadcast")],
        [make_record(title=f"suite {n}") for n in range(6)],
        [make_record(backend=name) for name in ("gloo", "mpi", "ucc", "nccl")],
        rings,
    ]
    golden("\n".join(question_of(tabulate_records(records)) for records in asked))


def test_verdict_without_alternatives_is_range_of_times(golden):
    slow, fast = make_record(1.0, 1, 2e-3), make_record(1.0, 1, 1e-3, backend="mpi")
    for record in (slow, fast):
        record["config"].pop("data_size")
    slow["config"]["dtype"] = "float64"
    told = []
    for records in ([slow, fast], [fast], [make_record(status="crash")]):
        table = tabulate_records(records)
        told += verdict_of(table, {title: list(lines) for title, lines in findings(table).items()})
    golden("\n".join(told))
