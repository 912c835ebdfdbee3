"""The table of vector_sum."""

import pandas as pd
from analysis.shared.text_table import as_markdown


def write(table: pd.DataFrame) -> dict[str, str]:
    rows = table[table["suite"] == "vector_sum"]
    if rows.empty:
        return {}
    shown = pd.DataFrame({"length": rows["length"], "median [us]": 1e6 * rows["median_s"]})
    return {"vector_sum.md": as_markdown(shown)}
