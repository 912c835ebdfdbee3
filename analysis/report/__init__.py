"""What `python -m analysis FOLDER` writes: tables, sentences, plots that every suite has."""
