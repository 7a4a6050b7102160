"""The figures of Fehervari et al. 2019, drawn from the numbers of `page`."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from dmlrc.records import StudyRecords
from dmlrc.report import common, style
from dmlrc.report.fehervari2019.page import fehervari_label, sweep
from dmlrc.report.style import GREEN, GREY, ORANGE, PURPLE, SKY, Style

GROUPS = {
    "pairs and triplets": ("triplet_semihard", "lifted_structure", "n_pairs", "margin", "angular"),
    "clusters, proxies, lists": (
        "structured_clustering",
        "prototypical",
        "proxy_triplet",
        "proxy_nca",
        "proxy_softmax",
        "ranked_list",
    ),
}


# those of the Reality Check look as everywhere in the book
STYLES = {
    "triplet_semihard": Style(ORANGE, "^"),
    "lifted_structure": Style(GREEN, "v"),
    "n_pairs": Style(SKY, "P"),
    "margin": style.method_style("margin"),
    "angular": Style(PURPLE, "D"),
    "structured_clustering": Style(GREY, "X"),
    "prototypical": Style(GREEN, "p"),
    "proxy_triplet": Style(SKY, "<"),
    "proxy_nca": style.method_style("proxy_nca"),
    "proxy_softmax": style.method_style("normalized_softmax"),
    "ranked_list": Style(PURPLE, "h"),
    "dreml": Style("black", "*"),
}


def draw_sweep(by_study: Mapping[str, StudyRecords], xlabel: str) -> Figure:
    """fehervari-f1 and f2: R@1 against a number that doubles; a row of panels a study, a column a family of methods.

    Bars: 95 % intervals over the seeds. The two panels of a study share their scale.
    """
    figure, axes = style.canvas(1.3 + 2.5 * len(by_study), len(by_study), len(GROUPS), sharex=True, sharey="row")
    for row, (name, records) in zip(axes, by_study.items(), strict=True):
        frame = sweep(records)
        for axis, (family, members) in zip(row, GROUPS.items(), strict=True):
            for method in members:
                part = frame[frame["method"] == method]
                look = STYLES[method]
                axis.errorbar(
                    part["number"],
                    100 * part["mean"],
                    yerr=100 * part["ci95"].fillna(0.0),
                    color=look.colour,
                    marker=look.marker,
                    markersize=5,
                    linewidth=1.2,
                    elinewidth=0.8,
                    label=fehervari_label(method),
                )
            axis.set_title(f"{name}\n{family}" if len(by_study) > 1 else family, fontsize=9)
            common.doubling_axis(axis, frame["number"], fontsize=8, rotation=45)
        row[0].set_ylabel("R@1, %")
    for axis in axes[-1]:
        axis.set_xlabel(xlabel)
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.28), frameon=False, borderaxespad=0)
    return figure
