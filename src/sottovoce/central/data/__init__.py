"""Private rows where they are: a holder answers for its parts, and each part remembers what belongs to its rows."""
