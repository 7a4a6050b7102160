"""How fast the parts are, beside named peers, and how they grow: as measured by `benchmarks/` and committed."""
