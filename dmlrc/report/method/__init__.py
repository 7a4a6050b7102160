"""A page a method: what it computes, what its searches found, where it stands, what is claimed of it."""
