"""What tests take from analysis.report."""

from analysis.report import crowds as crowds
from analysis.report import discover as discover
from analysis.report import noise as noise
from analysis.report import report as report
from analysis.report import size_plots as size_plots
from analysis.report import speedup_plot as speedup_plot
from analysis.report import style as style
from analysis.report.sentences import describe as describe
