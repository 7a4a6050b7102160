"""Speed of the parts beside named peers, and growth with size: as measured by `benchmarks/` and committed."""
