"""The organisation: its table, its budget, its sessions. It alone decodes, charges and runs."""
