"""Which people all parties hold, by private set intersection, and whose rows a party trains on from then on."""
