"""The device's side: a record in, a report out. It loads numpy and nothing else."""
