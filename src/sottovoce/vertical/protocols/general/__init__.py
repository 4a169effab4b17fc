"""What every conversation with a party has, whatever the mechanism."""
