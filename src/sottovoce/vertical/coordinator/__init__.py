"""The coordinator's side of every training: parties to talk to, plans, charges, history."""
