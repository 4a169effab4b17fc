"""What an installation takes."""
