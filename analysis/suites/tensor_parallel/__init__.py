"""Shared by tp_columnwise and tp_rowwise: implementations per shape, and DDLB's CSV."""
