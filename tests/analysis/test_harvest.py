from analysis.harvest import harvest
from tests.analysis.records import grid, make_record, write_all


def test_every_record_below_any_number_of_folders_in_order(tmp_path):
    write_all(tmp_path / "a" / "sweep", [make_record(size) for size in range(1, 13)])
    write_all(tmp_path / "b", grid())
    found = harvest([tmp_path / "a", tmp_path / "b"])
    assert len(found.records) == 18
    assert [record["config"]["data_size"] for record in found.records[:12]] == list(range(1, 13))
    assert found.passed_over == []


def test_the_same_record_counts_once(tmp_path):
    folder = write_all(tmp_path / "a", [make_record()])
    assert len(harvest([folder, tmp_path, folder / "0" / "record.json"]).records) == 1


def test_renamed_records_and_single_files_are_found(tmp_path):
    folder = write_all(tmp_path / "a", [make_record()])
    renamed = tmp_path / "gpu_record.json"
    (folder / "0" / "record.json").rename(renamed)
    assert len(harvest([tmp_path]).records) == 1
    assert len(harvest([renamed]).records) == 1


def test_broken_and_foreign_files_are_named_and_passed_over(tmp_path):
    write_all(tmp_path, [make_record()])
    for name, text in (("half", '{"schema_version": 1, "su'), ("foreign", '{"results": []}'), ("binary", "\x00\xff")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.json").write_text(text)
    found = harvest([tmp_path])
    assert len(found.records) == 1
    assert len(found.passed_over) == 3
    for name in ("half", "foreign", "binary"):
        assert any(name in line for line in found.passed_over)
