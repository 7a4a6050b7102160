"""The deviation ledgers: where studies differ from their papers, numbered, with the reason; one module a paper.

Two sources: the protocol's fields, compared by the machine (each module's `REASONS` adds the paper's section and the
why), and what no field shows, written by hand (`BY_HAND`).
"""

from dmlrc.report.deviations import fehervari2019, musgrave2020, oi2021, roth2020, zhai2019

__all__ = ["fehervari2019", "musgrave2020", "oi2021", "roth2020", "zhai2019"]
