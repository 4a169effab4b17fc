"""The same person in the same row everywhere: matching identifiers, in the clear or by private set intersection."""
