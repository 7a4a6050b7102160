"""The deviation ledgers: where studies differ from their papers, numbered, with the reason; one TOML file a paper.

Two sources: the protocol's fields, compared by the machine, and rows on what no field shows. What the rows say of ours
is typed, or computed from the records by a function of `ours`.
"""

from dmlrc.report.deviations.compare import ledger, show

__all__ = ["ledger", "show"]
