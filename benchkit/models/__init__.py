"""Models that suites measure."""
