"""What tests take from analysis.report."""

from analysis.report import chart as chart
from analysis.report import choice as choice
from analysis.report import draw as draw
from analysis.report import report as report
from analysis.report import sentences as sentences
from analysis.report import sizes as sizes
from analysis.report import style as style
from analysis.report import tables as tables
from analysis.report.chart import PAGE_ROW as PAGE_ROW
from analysis.report.chart import charts_of as charts_of
from analysis.report.draw import draw_all as draw_all
from analysis.report.parts import ReportData as ReportData
from analysis.report.parts import with_ids as with_ids
from analysis.report.sentences import MOST_LINES as MOST_LINES
from analysis.report.tables import ranks_for_print as ranks_for_print
from analysis.shared import discover as discover
from analysis.shared.discover import make_directly as make_directly
from analysis.shared.discover import modules_with as modules_with
from analysis.shared.discover import write_all as write_all
