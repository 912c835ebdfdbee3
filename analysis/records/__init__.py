"""Turn record files into rows: find and check them, and derive their metrics."""
