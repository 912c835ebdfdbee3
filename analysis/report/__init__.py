"""The report of `python -m analysis FOLDER`: tables, sentences and plots."""
