"""All that a suite imports: its configuration's schema, cases, regions, verification, transfers between peers."""
