"""One page of a report, which opens without a server or a network.

It shows the rows, sentences, tables and figures of `analysis.report`; nothing is computed twice.
"""
