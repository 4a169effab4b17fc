"""One folder for each mechanism: messages, what the party does, what the coordinator does, plan and event."""
