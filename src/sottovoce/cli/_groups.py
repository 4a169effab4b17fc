"""Groups of commands, apart from what they do: a list of commands imports none."""

from sottovoce.cli._lazy import group

receipt = group(
    "Receipts: verify one, sign it, add several up.",
    **{name: f"sottovoce.cli.receipt:{name}" for name in ("verify", "key", "sign", "sum_")},
)

ledger = group(
    "Privacy budgets on disk, charged before anybody looks at the data.",
    **{
        name: f"sottovoce.cli.ledger:{name}"
        for name in ("create", "show", "history", "cancel", "import_", "verify", "export")
    },
)

local = group(
    "One locally private report from each device.",
    **{
        name: f"sottovoce.cli.local.{module}:{name}"
        for name, module in {
            "plan": "protocols", "protocol": "protocols", "tokens": "collecting", "survey": "collecting",
            "randomize": "reports", "collect": "collecting", "export": "reports", "fit": "reports",
            "predict": "reports",
        }.items()
    },
)  # fmt: skip
