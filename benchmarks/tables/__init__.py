"""Tables in files: what memory and time reading them takes."""
