"""What a collection will be worth, before the first report is asked for."""
