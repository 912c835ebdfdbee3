"""What `python -m analysis FOLDER` writes: tables, sentences and plots."""
