"""The formats of files that are imported: what each is recognised by, and how its entries are read."""
