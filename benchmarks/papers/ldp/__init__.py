"""Wang, Smith and Xu: one report a person."""
