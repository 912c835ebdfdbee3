"""The record of a point: its typed content, its file, and readers for older versions."""
