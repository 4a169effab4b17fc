"""``sottovoce local``: one locally private report from each device."""
