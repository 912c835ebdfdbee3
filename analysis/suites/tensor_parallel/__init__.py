"""What tp_columnwise and tp_rowwise share: implementations per shape, and DDLB's CSV."""
