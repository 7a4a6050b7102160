"""The deviation ledgers: where studies differ from their papers, numbered, with the reason; one module a paper.

Two sources: the protocol's fields, compared by the machine (each module's `REASONS` adds the paper's section and the
why), and what no field shows, written by hand (`BY_HAND`).
"""
