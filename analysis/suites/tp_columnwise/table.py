"""The tables and charts of tp_columnwise."""

import pandas as pd

from analysis.report.chart import Charts
from analysis.suites.tensor_parallel.charts import charts_of_suite
from analysis.suites.tensor_parallel.ddlb_csv import ddlb_csv
from analysis.suites.tensor_parallel.summary import summaries
from analysis.table.variants import Baseline

SUITE = "tp_columnwise"


def write(table: pd.DataFrame) -> dict[str, str]:
    return ddlb_csv(table, [SUITE]) | summaries(table, SUITE)


def show(table: pd.DataFrame, baseline: Baseline | None) -> Charts:
    return charts_of_suite(table, SUITE)
