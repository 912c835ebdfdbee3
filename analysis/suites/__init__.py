"""Tables and plots of the suites, one folder per suite."""
