"""What a party answers, mechanism by mechanism: this side of the trust boundary knows no coordinator."""
