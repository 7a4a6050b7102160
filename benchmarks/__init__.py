"""Speed, measured against a named peer in the same run and reported as a ratio: `make bench`."""
