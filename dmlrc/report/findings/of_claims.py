"""The findings about claims in papers, as they are shown; `literature` computes them."""

from collections.abc import Sequence

from dmlrc.records import StudyRecords
from dmlrc.report import labels, published
from dmlrc.report.fehervari2019.page import fehervari_label
from dmlrc.report.findings import literature
from dmlrc.report.findings.finding import Finding, Table, cells, percent
from dmlrc.report.findings.of_metrics import MUSGRAVE
from dmlrc.report.significance import measures


def findings(edition: Sequence[StudyRecords]) -> list[Finding]:
    """All of them; the records of these studies stand beside published numbers."""
    return [twins(edition), recycled(), gains(), table_against_plot(), same_losses()]


def twins(edition: Sequence[StudyRecords]) -> Finding:
    """ProxyNCA and normalised softmax, one function, as two rows of a table."""
    table = literature.twin_rows(edition)
    paper = table.loc[list(published.DATASETS)]
    widest, beyond = table["share"].idxmax(), [name for name in table.index if _beyond(table.loc[name])]
    heads = {
        "normalized_softmax": "N. Softmax",
        "proxy_nca": "ProxyNCA",
        "gap": "difference",
        "noise": "intervals",
        "range": "range",
        "share": "share",
    }
    search = (
        f"On {labels.listed(beyond)} the difference exceeds both intervals together: an interval over reruns holds "
        "neither the luck of the search nor what its ranges do."
    )
    rows = Table(
        "twins",
        cells(table, heads, table.columns, "data", digits=2),
        table,
        "MAP@R (concatenated) of the two rows, in percent. *Intervals*: half of either row's 95 % interval, added. "
        "*Range*: the best method minus the worst. *Share*: difference over range. CUB200, Cars196, SOP: Tables 3-5 of "
        "{cite:t}`musgrave2020`. " + labels.captions(edition),
        f"The widest gap is that on {widest}: the two differ by {percent(table.loc[widest, 'gap'], 2)} points, "
        f"{percent(table.loc[widest, 'share'], 0)} % of what separates the best method from the worst. "
        + (search if beyond else ""),
    )
    searched = literature.twin_temperatures()
    ratio = searched["ratio"]
    heads = {
        "batch_size": "batch",
        "normalized_softmax": "N. Softmax, T",
        "proxy_nca": "ProxyNCA, 1 / (2 s)",
        "ratio": "ratio",
    }
    temperatures = Table(
        "twin-temperatures",
        cells(searched.reset_index().set_index("dataset"), heads, index="data"),
        searched,
        "The temperature at which the published searches ended, for one function under two names "
        "{cite:p}`musgrave2020`.",
        "Two searches of one function over 50 trials each end at temperatures that differ by a factor "
        f"of {ratio.min():.1f} to {ratio.max():.1f}.",
    )
    return Finding(
        "twins",
        "Two rows, one function: ProxyNCA and N. Softmax",
        f"{MUSGRAVE}, Tables 3-5",
        f"{labels.span(paper['gap'], labels.percent)} points of MAP@R apart, up to "
        f"{percent(paper['share'].max(), 0)} % of the range of all methods",
        "List one of the two, or read their gap as that of two searches.",
        (rows, temperatures),
        "ProxyNCA and normalised softmax are one function, yet the Reality Check's tables have them "
        f"{labels.span(paper['gap'], labels.percent)} points of MAP@R apart, by search, seed and search ranges "
        f"together. {searched_again(edition)}".strip(),
        {"twin_gap": float(paper["gap"].max())},
    )


def searched_again(edition: Sequence[StudyRecords]) -> str:
    """How far apart the two are in our studies that repeated their searches, in a sentence; "" without any."""
    compared = [measures.compare(records) for records in edition]
    found = {each.study: measures.same_function(each) for each in compared if each.luck == measures.OWN}
    told = {
        study: f"{labels.signed(gap.value, 2, '')} ± {labels.percent(gap.half)} points"
        for study, gap in found.items()
        if gap
    }
    return f"In our repeated searches N. Softmax minus ProxyNCA is {labels.by_study(told)}." if told else ""


def _beyond(row) -> bool:
    return bool(row["gap"] > row["noise"])


def recycled() -> Finding:
    """Baselines of 2016 that later papers print to the digit."""
    table = literature.repeated_baselines()
    later = table.groupby("baseline")["later"].max()
    exhibit = Table(
        "recycled",
        cells(
            table.set_index("baseline"),
            {"dataset": "data", "r1": "R@1, 2016", "later": "again", "read": "of", "who": "who"},
            ["r1"],
        ),
        table,
        "How many later papers printed the baselines of 2016 again, of how many, and who: among the headline rows that "
        "were read in a named source. R@1 in percent. {doc}`What is left of the claimed gains? "
        "<04_papers_versus_reality>` lists the other repeats.",
        f"In all, {later['contrastive']} later papers have the contrastive number and {later['triplet']} the "
        "triplet number.",
        wrap=True,
    )
    return Finding(
        "recycled",
        "Baselines that were copied",
        "papers of 2016 to 2019",
        f"{later['contrastive']} later papers repeat a contrastive number of 2016, {later['triplet']} a triplet one",
        "Run the baseline again under the new method's protocol.",
        (exhibit,),
    )


def gains() -> Finding:
    """Gains over a baseline as papers claim them and as one protocol measures them."""
    table = literature.claimed_and_fair_gains()
    contrastive = table.set_index(["baseline", "dataset"]).loc["contrastive"]
    claimed = labels.each(contrastive["claimed"], labels.whole)
    measured = labels.each(contrastive["fair"], labels.signed)
    texts = table.assign(
        **{name: table[name].map(labels.whole) for name in ("claimed", "lowest", "highest")},
        fair=table["fair"].map(labels.signed),
    )
    heads = {
        "dataset": "data",
        "claimed": "claimed, mean",
        "lowest": "lowest",
        "highest": "highest",
        "papers": "papers",
        "fair": "measured",
    }
    exhibit = Table(
        "gains",
        cells(texts.set_index("baseline"), heads, index="over"),
        table,
        "Relative gain of P@1 over the contrastive and the triplet loss. Claimed: papers of 2017 to 2019, numbers read "
        "in a named source. Measured: newer methods in Tables 3-5 of {cite:t}`musgrave2020`, concatenated, mean.",
        f"For the years of the Reality Check: {claimed} claimed, {measured} measured.",
    )
    return Finding(
        "gains",
        "Gains as claimed and as measured",
        f"papers of 2017 to 2019; {MUSGRAVE}, Tables 3-5",
        f"over contrastive, claimed: {claimed}; measured under one protocol: {measured}",
        "Tune the baseline as hard as the new method.",
        (exhibit,),
        f"Papers of 2017 to 2019 claim these mean gains over the contrastive loss: {claimed}; one protocol measures "
        f"{measured}.",
        {"claimed_gain_cub200": float(contrastive["claimed"]["CUB200"])},
    )


def table_against_plot() -> Finding:
    """Cells of a paper's tables that differ from its authors' plots."""
    table, copied = literature.table_against_plot(), literature.copied_nmi()
    reported = table["plot_is_reported"].sum()
    texts = table.assign(
        method=table["method"].map(fehervari_label),
        trunk=table["trunk"].map(labels.TRUNK_LABELS),
        metric=table["metric"].map(labels.METRIC_LABELS),
    )
    heads = {
        "method": "method",
        "trunk": "trunk",
        "metric": "metric",
        "value": "table",
        "plotted": "plot",
        "reported": "original paper",
        "plot_is_reported": "plot agrees with the original paper",
    }
    exhibit = Table(
        "table-against-plot",
        cells(texts.set_index("dataset"), heads, ["value", "plotted", "reported"], "data"),
        table,
        "Cells of Tables 2-4 of {cite:t}`fehervari2019` that differ from the authors' public plots, in percent; "
        "*original paper*: the R@1 that the method's own paper reports. The plots were read once, by us; this "
        "chapter computes from those readings.",
        f"In {reported} cells the number in the plot agrees with the one that the original paper "
        "reports, and the table has another; which of the two was measured cannot be told from here. The NMI of "
        f"N-pairs on SOP, {percent(copied['value'])} %, is far from those of all other methods, "
        f"{percent(copied['lowest'])} to {percent(copied['highest'])} %, and may be a slip in typing. We compare with "
        "the tables, and leave that cell out.",
    )
    return Finding(
        "table-against-plot",
        "Tables that differ from the authors' plots",
        "Fehervari et al. 2019, Tables 2-4; their public plots",
        f"{len(table)} cells differ, by up to {percent((table['value'] - table['plotted']).abs().max(), 2)} points; in "
        f"{reported} the plot agrees with the original paper",
        "Publish the numbers behind a table as a file.",
        (exhibit,),
    )


def same_losses() -> Finding:
    """Losses that are older ones under new names, and what two papers report for one of them."""
    table, claimed = literature.same_losses(), literature.claims_of_proxy_nca_pp()
    identity = table.index.str.contains(" = ") & ~table.index.str.startswith("ProxyNCA,")
    heads = {"first": "first", "second": "second", "value": "difference", "gradient": "difference of the gradients"}
    identities = Table(
        "same-losses",
        cells(table, heads, index="losses"),
        table,
        "Both losses of a pair on one random batch of 24 images in float64; differences relative to the first. TCM and "
        f"contrastive with the margins {literature.COSINE_MARGINS} of the cosine; T = {literature.TEMPERATURE} for the "
        "last two rows. Computed live, seed 0.",
        "The last row shows what a difference looks like: with four images a class SupCon keeps the other positives "
        f"in its denominator, and the gradients differ by {percent(table['gradient'].iloc[-1], 0)} %. All others agree "
        "to rounding.",
        wrap=True,
    )
    heads = {"norm_softmax": "N. Softmax, 2019", "proxy_nca_pp": "ProxyNCA++, 2020", "difference": "difference"}
    reported = Table(
        "proxy-nca-pp",
        cells(claimed, heads, claimed.columns, "data"),
        claimed,
        "R@1 in percent as two papers report it, ResNet50, 2,048 dimensions: normalised softmax at T = 1/20 "
        "{cite:p}`zhai2019` and ProxyNCA++, the same function at T = 1/18 {cite:p}`teh2020`.",
        f"Two papers' results for one and the same loss differ by up to {percent(claimed['difference'].max())} points: "
        f"pooling, "
        "normalisation, images, sampling and learning rates are what changed.",
    )
    return Finding(
        "same-losses",
        "New losses that are older ones",
        "Teh et al. 2020; Khosla et al. 2020; Zhang et al. 2024",
        f"{identity.sum()} pairs agree to {labels.number(table['gradient'][identity].max())} of their gradients",
        "Compare a new loss with the old ones on one batch: value and gradient.",
        (identities, reported),
    )
