"""One report from each device."""
