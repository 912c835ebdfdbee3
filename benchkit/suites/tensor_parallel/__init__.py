"""Shared code of tp_columnwise and tp_rowwise (after DDLB); this is no suite."""
