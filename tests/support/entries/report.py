"""What tests take from analysis.report."""

from analysis.report import report as report
from analysis.report import size_plots as size_plots
from analysis.report import style as style
from analysis.report.sentences import describe as describe
