"""Matrix programs that are split over devices by a planner, beside fixed rules and one device."""
