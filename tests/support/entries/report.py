"""What tests take from analysis.report."""

from analysis.report.discover import draw_all as draw_all
from analysis.report.discover import write_all as write_all
from analysis.report.ranks import for_print as for_print
from analysis.report.sentences import describe as describe
