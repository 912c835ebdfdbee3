"""Matrix products over ranks: C [m, n] = A [m, k] B [k, n], and what they wait for under what they compute.

Columnwise: A's rows are shared out, B is everywhere, all of C is wanted everywhere (all-gather and matmul).
Rowwise: A's columns and B's rows are shared out, each rank wants its rows of C (matmul and reduce-scatter).
"""
