"""What tests take from analysis.report."""

from analysis.report import noise as noise
from analysis.report import sentences as sentences
