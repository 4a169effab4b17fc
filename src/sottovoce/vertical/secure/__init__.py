"""Joint training inside secure computation: noisy sums over all parties' columns, and nothing else, are opened."""
