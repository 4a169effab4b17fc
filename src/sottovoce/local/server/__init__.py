"""The server's side: reports in, sums out, models from sums."""
