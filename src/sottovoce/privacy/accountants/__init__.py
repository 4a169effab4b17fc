"""The accountants, one way of accounting a file; `sottovoce.privacy.accounting` is their door."""
