"""What tp_columnwise and tp_rowwise share (DDLB): no suite of its own."""
