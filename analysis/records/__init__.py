"""From record files to rows: found, checked, and given their derived figures."""
