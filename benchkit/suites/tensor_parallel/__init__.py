"""Matrix products split over ranks (DDLB): each with its communication, and each part alone."""
