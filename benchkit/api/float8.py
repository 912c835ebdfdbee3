"""What float8 matrices are limited to; imports no torch."""

FLOAT8 = "float8_e4m3fn"
FLOAT8_STEP = 16
"""What the columns of a float8 factor, and the rows and columns of the next, must divide by."""
