"""`analysis.load`: the rows of combined.csv, in columns with types that docs/api.md names."""

import subprocess
import sys

import analysis
import numpy as np
import pandas as pd
import pytest
from analysis.cli import main
from analysis.records.columns import COLUMNS
from analysis.shared import output
from analysis.table.combine import ROUNDS

from tests.support.cli import ROOT
from tests.support.records import LABELS, grid, make_record, make_rich_record, tabulate_records, write_all

TYPES = {"float64", "Int64", "boolean", "string", "datetime64[ns, UTC]"}
SUITES = ("collective", *LABELS)


def test_every_column_has_a_documented_type_whatever_its_values(tmp_path):
    """A column that is empty in one folder and full in another can be concatenated, and compared."""
    full = analysis.load(write_all(tmp_path / "full", [make_rich_record(suite) for suite in SUITES]))
    empty = analysis.load(write_all(tmp_path / "empty", [make_record(status="timeout")]))
    assert {str(dtype) for dtype in full.dtypes} == TYPES
    documented = {name: each.dtype for name, each in COLUMNS.items()}
    assert {name: str(full[name].dtype) for name in COLUMNS} == documented
    assert {name: str(empty[name].dtype) for name in COLUMNS} == documented


def test_documented_columns_are_those_of_table():
    table = tabulate_records([make_record()])
    own = {"data_size", "dtype", "reduce_op"}
    assert [name for name in table if name not in (*own, ROUNDS)] == list(COLUMNS)


def test_units_agree_with_names():
    endings = {"_s": "s", "_bytes": "B", "_gb_per_s": "GB/s", "_tflop_per_s": "TFLOP/s"}
    for name, column in COLUMNS.items():
        if column.dtype in ("float64", "Int64"):
            expected = next((unit for end, unit in reversed(endings.items()) if name.endswith(end)), None)
            assert expected in (None, column.unit), name


def test_values_equal_those_of_csv(tmp_path, undrawn):
    folder = write_all(tmp_path, [*grid(), make_record(status="crash")])
    table = analysis.load(folder)
    assert main([str(folder)]) == 0
    written = pd.read_csv(folder / "report" / "combined.csv")
    assert list(table) == list(written)
    for name in table:
        if pd.api.types.is_numeric_dtype(table[name].dtype):
            both = table[name].to_numpy(float, na_value=np.nan), written[name].to_numpy(float)
            np.testing.assert_allclose(*both, rtol=1e-12)
    assert table["status"].tolist() == written["status"].tolist()
    assert table["started_at"].dt.year.tolist() == [2026] * len(table)


def test_own_columns_have_types_of_their_values(tmp_path):
    made = make_record()
    made["config"] |= {"async_op": True, "count": 3, "mixed": 1}
    other = make_record(2.0)
    other["config"] |= {"mixed": "auto"}
    table = analysis.load(write_all(tmp_path, [made, other]))
    found = {name: str(table[name].dtype) for name in ("async_op", "count", "mixed", "data_size", "dtype")}
    assert found == {
        "async_op": "boolean", "count": "Int64", "mixed": "string", "data_size": "float64", "dtype": "string",
    }  # fmt: skip
    assert table["mixed"].tolist() == ["1", "auto"]


def test_numbers_beyond_type_are_kept_or_missing(tmp_path):
    made = make_record(started_at="yesterday")
    made["config"] |= {"count": 2**63 + 1}
    table = analysis.load(write_all(tmp_path, [made, make_record(2.0, started_at="0001-01-01T00:00:00Z")]))
    assert table["count"][0] == 2.0**63
    assert table["started_at"].isna().all()


def test_several_places_become_one_table(tmp_path):
    places = [write_all(tmp_path / name, [make_record(size)] * 2) for name, size in (("a", 1.0), ("b", 2.0))]
    for place in places:
        (place / "1" / "record.json").write_text("{")
    with pytest.warns(UserWarning, match=r"a/1/record\.json"):
        assert analysis.load(*places)["data_size"].tolist() == [1.0, 2.0]
    assert analysis.load(str(places[1] / "0" / "record.json"))["data_size"].tolist() == [2.0]


def test_place_without_records_and_unknown_name_are_refused(tmp_path, golden):
    told = []
    for place in ("absent", ""):
        with pytest.raises(FileNotFoundError) as refusal:
            analysis.load(tmp_path / place)
        told.append(str(refusal.value))
    golden("\n".join(told))
    with pytest.raises(AttributeError, match="lode"):
        _ = analysis.lode


def test_imports_stay_cheap():
    """Every rank imports benchkit, and every completion of a command line."""
    heavy = ("torch", "pandas", "numpy", "hydra", "omegaconf", "matplotlib", "msgspec", "subprocess")
    program = (
        "import sys\nbefore = set(sys.modules)\nimport benchkit, analysis\n"
        f"print(sorted(set({heavy!r}) & set(sys.modules) - before), benchkit.__version__)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "0.1.0"]


def test_parquet_has_rows_and_types_of_load(tmp_path, capsys, undrawn):
    write_all(tmp_path, [make_rich_record(), make_record(status="timeout")])
    assert main([str(tmp_path), "--parquet"]) == 0
    path = tmp_path / "report" / "combined.parquet"
    assert str(path) in capsys.readouterr().out
    pd.testing.assert_frame_equal(pd.read_parquet(path), analysis.load(tmp_path), check_dtype=True)


def test_parquet_without_its_library_is_refused(tmp_path, monkeypatch, capsys, golden):
    write_all(tmp_path, [make_record()])
    monkeypatch.setattr(output, "find_spec", lambda name: None)
    assert main([str(tmp_path), "--parquet"]) == 2
    golden(capsys.readouterr().err)
