"""What the papers print, measured: where it holds and where it does not."""
