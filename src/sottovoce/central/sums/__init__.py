"""Sums over rows: in whole numbers where they are exact, clipped where they are released, and what is made of them."""
