"""From summed reports to a model: moments, fits, and what is chosen between them."""
