"""The privacy curves of single mechanisms, as accountants need them: one file each."""
