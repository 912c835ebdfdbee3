"""What tests take from analysis.report."""
