"""Other libraries, each in an environment of its own."""
