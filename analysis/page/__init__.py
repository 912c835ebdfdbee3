"""A report as one HTML page that needs no server and no network.

It shows the rows, sentences, tables and figures of `analysis.report`; nothing is computed twice.
"""
