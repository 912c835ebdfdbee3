"""What tests take from analysis.report."""

from analysis.report.sentences import describe as describe
