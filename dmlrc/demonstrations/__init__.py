"""Findings: discrepancies in public code and papers, each shown by a small demonstration that takes seconds.

`metrics`, `training` and `published` compute them, `drawings` draws some; `findings` lists them with what was found.
"""
