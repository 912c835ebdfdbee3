"""Compares runs of two sides or more, point by point, and says which points are worse."""
