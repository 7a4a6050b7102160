"""Findings: discrepancies in public code and papers, each shown by a small demonstration that takes seconds.

`metrics`, `training` and `literature` compute them, `figures` draws some; `page` lists them with what was found.
"""
