"""The record of a point: its typed content and its file."""
