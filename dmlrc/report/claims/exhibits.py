"""The tables and figures that claims lead to: the chapter of each, and what a link calls it beside its paper's name."""

from typing import NamedTuple

from markupsafe import Markup


class Exhibit(NamedTuple):
    """A table or figure of a chapter. Where a paper has it, it is called as there."""

    chapter: str
    called: str


_METRICS, _SEARCH, _RESULTS = "02_which_score_to_trust", "03_a_fair_race", "04_which_loss_wins"
_YEARS, _STRATEGIES, _UNBIASED = "06_claimed_gains", "11_roth2020", "12_fehervari2019"
_CLASSIFIER, _PAIRS, _DECIDES = "13_zhai2019", "14_oi2021", "08_what_moves_a_score"

EXHIBITS = {
    "answer": Exhibit(_YEARS, "How far apart the methods are"),
    "fehervari-f1-numbers": Exhibit(_UNBIASED, "Fig. 1, numbers"),
    "fehervari-f2-equal-numbers": Exhibit(_UNBIASED, "Fig. 2, equal images seen"),
    "fehervari-t2": Exhibit(_UNBIASED, "Table 2"),
    "musgrave-f1": Exhibit(_METRICS, "Fig. 1"),
    "musgrave-f2-numbers": Exhibit(_METRICS, "Fig. 2, numbers"),
    "musgrave-f3": Exhibit(_RESULTS, "Fig. 3"),
    "musgrave-f4-trends": Exhibit(_YEARS, "Fig. 4, trends"),
    "musgrave-search-trials": Exhibit(_SEARCH, "Every trial of a search"),
    "musgrave-t1": Exhibit(_RESULTS, "Table 1"),
    "musgrave-t2": Exhibit(_METRICS, "Table 2"),
    "musgrave-t6": Exhibit(_RESULTS, "Table 6"),
    "oi-f1": Exhibit(_PAIRS, "Fig. 1"),
    "oi-f2": Exhibit(_PAIRS, "Fig. 2"),
    "oi-f3": Exhibit(_PAIRS, "Fig. 3"),
    "oi-f4-gaps": Exhibit(_PAIRS, "Fig. 4, gaps"),
    "oi-orders": Exhibit(_PAIRS, "Ten orders of the classes"),
    "recycled-contrastive": Exhibit(_YEARS, "One baseline in many papers"),
    "roth-f1-gains": Exhibit(_STRATEGIES, "Fig. 1, gains"),
    "roth-f2-beside-losses": Exhibit(_STRATEGIES, "Fig. 2, beside the losses"),
    "roth-f2-effects": Exhibit(_STRATEGIES, "Fig. 2, effects"),
    "roth-f3-gaps": Exhibit(_STRATEGIES, "Fig. 3, differences"),
    "roth-f4": Exhibit(_STRATEGIES, "Fig. 4"),
    "roth-f5-correlations": Exhibit(_STRATEGIES, "Fig. 5, correlations"),
    "roth-f7-decay": Exhibit(_STRATEGIES, "Fig. 7, decay"),
    "roth-t2": Exhibit(_STRATEGIES, "Table 2"),
    "validation-test": Exhibit(_DECIDES, "Validation beside test"),
    "zhai-equal": Exhibit(_CLASSIFIER, "The same batches for all losses"),
    "zhai-f2-numbers": Exhibit(_CLASSIFIER, "Fig. 2, numbers"),
    "zhai-f3-numbers": Exhibit(_CLASSIFIER, "Fig. 3, numbers"),
    "zhai-f4-numbers": Exhibit(_CLASSIFIER, "Fig. 4, numbers"),
    "zhai-t4": Exhibit(_CLASSIFIER, "Table 4"),
    "zhai-t5": Exhibit(_CLASSIFIER, "Table 5"),
}
"""Every `Claim.link`."""


def link(label: str) -> Markup:
    """A link to a table or figure, from one chapter to another.

    >>> print(link("musgrave-f1"))
    <a href="02_which_score_to_trust.html#musgrave-f1">Fig. 1</a>
    """
    found = EXHIBITS[label]
    return Markup('<a href="{}.html#{}">{}</a>').format(found.chapter, label, found.called)
