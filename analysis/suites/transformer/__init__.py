"""Step times, phases and MFU over model sizes."""
