"""Implementations per shape, and DDLB's CSV."""
