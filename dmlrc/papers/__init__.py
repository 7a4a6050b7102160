"""The five papers, one module each: citation, protocol, methods, expected numbers, deviations."""
