"""The findings about metrics, as they are shown; `metrics` computes them."""

from collections.abc import Sequence

from dmlrc.records import StudyRecords
from dmlrc.report import labels, published
from dmlrc.report.findings import figures, metrics
from dmlrc.report.findings.finding import Drawing, Finding, Pair, Table, cells, percent

ROTH = "Roth et al. 2020, public code"
MUSGRAVE = "Musgrave et al. 2020"


def findings(edition: Sequence[StudyRecords]) -> list[Finding]:
    """All of them; the records of these studies stand beside published numbers."""
    return [
        ties(),
        duplicates(),
        singletons(),
        map_at_c(),
        classes(edition),
        random_nmi(),
        singular_values(),
        ap_from_zero(),
    ]


def ties() -> Finding:
    """The score of a collapsed embedding follows the order of its rows."""
    table = metrics.ties()
    collapsed = table.loc["collapsed"]
    heads = {
        "sorted": "sorted rows",
        "lowest": "random, lowest",
        "highest": "random, highest",
        "ours_lowest": "ours, lowest",
        "ours_highest": "ours, highest",
    }
    exhibit = Table(
        "ties",
        cells(table, heads, table.columns, "embedding"),
        table,
        "MAP@R of the same rows in different orders (sorted by class, and at random), in percent, 10 classes of 10 "
        "images. *8 bits*: the signs of a good embedding, compared by Hamming distance. Computed live, seed 0.",
        f"Sorted by class, the collapsed embedding scores {percent(collapsed['sorted'])} %, "
        f"{collapsed['sorted'] / collapsed['ours_lowest']:.1f} times the {percent(collapsed['ours_lowest'])} % that "
        "chance gives it. By our rule the order of the rows makes no difference.",
    )
    return Finding(
        "ties",
        "Ties scored by the order of the rows",
        f"{ROTH}; any plain sort",
        f"a collapsed embedding scores {percent(collapsed['lowest'])} to {percent(collapsed['sorted'])} % MAP@R, by "
        f"the order of its rows; ours {percent(collapsed['ours_lowest'])} %",
        "Score a tie by its mean over all orders.",
        (exhibit,),
        pair=Pair("MAP@R of a collapsed embedding", collapsed["sorted"], collapsed["ours_lowest"]),
    )


def duplicates() -> Finding:
    """Where an image has an exact copy, dropping the first neighbour keeps the query among its own neighbours."""
    table = metrics.duplicates()
    other = table[table["copies"] == "another class"].iloc[-1]
    heads = {"share": "images copied, %", "naive": "first dropped", "ours": "query left out"}
    exhibit = Table(
        "duplicates",
        cells(table.set_index("copies"), heads, ["share", "naive", "ours"]),
        table,
        "P@1 of an embedding of 10 classes of 20 images, to which exact copies of some images are added, in percent. "
        "Computed live, seed 0.",
        "With copies under another label, one image of each pair of copies retrieves itself and "
        f"counts as right, so that P@1 is {percent(other['naive'])} instead of {percent(other['ours'])} %. In the "
        "upper rows nothing is lost: a copy with the same label is as right as the query. So the fault shows only "
        "where the data has wrong or ambiguous labels.",
    )
    return Finding(
        "duplicates",
        "Dropping the first neighbour instead of the query",
        ROTH,
        f"copies of {percent(other['share'], 0)} % of the images under another label: P@1 {percent(other['naive'])} "
        f"instead of {percent(other['ours'])} %; copies with the same label change nothing",
        "Leave the query out by its index, not by its rank.",
        (exhibit,),
        pair=Pair("P@1 with copies under another label", other["naive"], other["ours"]),
    )


def singletons() -> Finding:
    """Queries that are alone in their class, left out or counted as 0."""
    table = metrics.singletons()
    last = table.iloc[-1]
    heads = {
        "share": "share of all, %",
        "ours": "left out",
        "excluded": "queries left out",
        "as_zero": "counted as 0",
    }
    exhibit = Table(
        "singletons",
        cells(table.set_index("alone"), heads, ["share", "ours", "as_zero"], "images alone"),
        table,
        "P@1 of a perfect embedding of 20 classes of 5 images and some images alone in their class, in percent. "
        "Computed live.",
        "The score falls by exactly the share of images that nobody could have found. Folders of "
        "people's own images may well have such classes.",
    )
    return Finding(
        "singletons",
        "Images alone in their class: left out or 0",
        f"pytorch-metric-learning leaves them out; {ROTH}, counts 0",
        f"a perfect embedding scores {percent(last['as_zero'])} % P@1 where {percent(last['share'], 0)} % of the "
        "images are alone in their class",
        "Leave such queries out, and say how many they are.",
        (exhibit,),
        pair=Pair("P@1, some images alone in their class", last["as_zero"], last["ours"]),
    )


def map_at_c() -> Finding:
    """mAP@C divided by C, of which the query itself is one."""
    table = metrics.perfect_map_at_c()
    size, score = table.index[0], percent(table["as_coded"].iloc[0])
    heads = {"ours": "ours", "as_coded": "divided by C", "formula": "(C - 1) / C"}
    exhibit = Table(
        "map-at-c",
        cells(table, heads, table.columns),
        table,
        "mAP@C of a perfect embedding, in percent, by the size of the classes. Computed live.",
        f"With classes of {size} a perfect embedding scores {score} %. With classes of 50 the "
        "difference is small; on SOP, with about 5 images a class, it is not.",
    )
    return Finding(
        "map-at-c",
        "mAP@C whose maximum is below 100 %",
        ROTH,
        f"a perfect embedding of classes of {size} images scores {score} %",
        "Divide by the number of positives, C - 1.",
        (exhibit,),
        pair=Pair("mAP@C of a perfect embedding", table["as_coded"].iloc[0], table["ours"].iloc[0]),
    )


def classes(edition: Sequence[StudyRecords]) -> Finding:
    """One embedding scored on ever more of its classes; the Reality Check's validation beside its test."""
    scores, table = metrics.number_of_classes(), metrics.validation_and_test(edition)
    ratios = table.loc[list(published.DATASETS), "ratio"]
    fewest, most = scores.index[0], scores.index[-1]
    map_at_r = scores["map_at_r"]
    drawing = Drawing(
        "classes",
        figures.number_of_classes(scores),
        f"One embedding of {most} Gaussian classes of 10 images, scored on random parts of its classes. Computed live, "
        "seed 0.",
        f"MAP@R is {percent(map_at_r.iloc[0])} % with {fewest} classes, {percent(map_at_r.iloc[-1])} % with {most}. "
        f"JSD stays at {labels.span(scores['jsd'], '{:.3f}'.format)}.",
    )
    heads = {
        "validation_classes": "validation classes",
        "test_classes": "test classes",
        "validation": "validation",
        "test": "test",
        "ratio": "ratio",
    }
    beside = Table(
        "classes-published",
        cells(table, heads, ["validation", "test"], "data"),
        table,
        "MAP@R in percent, mean over the methods: in cross-validation and on the test half (separated embeddings). "
        "CUB200, Cars196, SOP: {cite:t}`musgrave2020`, the best trial of each published search (so slightly favoured) "
        "and Tables 3-5. " + labels.captions(edition),
        f"The ratios of the paper are {labels.each(ratios, '{:.2f}'.format)}. The test half has four times as many "
        "classes in every row, yet the ratios differ: the number of classes is not all that tells the halves apart. "
        "In the figure above nothing else changes.",
    )
    return Finding(
        "classes",
        "MAP@R depends on the number of classes",
        f"argued by Oi et al. 2021; {MUSGRAVE}, tables and published searches",
        f"one embedding: {percent(map_at_r[25])} % with 25 of its classes, {percent(map_at_r[100])} % with 100; the "
        f"paper's validation over its test: {labels.each(ratios, '{:.2f}'.format)}",
        "Compare MAP@R on one and the same set of classes.",
        (drawing, beside),
        "MAP@R of made-up classes falls as classes are added, with nothing else changed: from "
        f"{percent(map_at_r.iloc[0])} to {percent(map_at_r.iloc[-1])} % between {fewest} and {most} classes. Values on "
        "different sets of classes do not compare.",
        {"validation_over_test_cub200": float(ratios["CUB200"])},
    )


def random_nmi() -> Finding:
    """NMI of clusters that know nothing of the classes."""
    table = metrics.random_nmi()
    last = table.iloc[-1]
    heads = {
        "images": "images a class",
        "worst": "worst clusters",
        "shuffled": "shuffled",
        "kmeans": "k-means",
        "formula": "1 − log S / log C",
    }
    rows = table.assign(classes=table["classes"].map("{:,}".format)).set_index("classes")
    exhibit = Table(
        "random-nmi",
        cells(rows, heads, ["worst", "shuffled", "kmeans", "formula"]),
        table,
        "NMI in percent of clusters that know nothing of the classes. A dash: the formula needs S of at most C; "
        "k-means with 10,000 clusters would take minutes. Computed live, seed 0.",
        f"With about as many classes as SOP has, images dealt out at random reach {percent(last['shuffled'])} %. An "
        "NMI means something only beside this number.",
    )
    return Finding(
        "random-nmi",
        "NMI of embeddings that know nothing",
        f"{MUSGRAVE}, Eqs. 3-7",
        f"{percent(last['worst'])} % for {last['classes']:,.0f} classes of {last['images']:.0f}",
        "Print NMI beside its value for random clusters, or not at all.",
        (exhibit,),
        scalars={"random_nmi": float(last["shuffled"])},
    )


def singular_values() -> Finding:
    """rho with and without the smallest singular value."""
    table = metrics.kept_singular_values()
    idle, decaying = table.loc["one idle direction"], table.loc["decaying"]
    heads = {
        "all": "all D",
        "paper": "without the largest",
        "without_smallest": "without the smallest",
        "without_both": "without both",
    }
    exhibit = Table(
        "singular-values",
        cells(table, heads, index="spectrum"),
        table,
        "rho of two made-up spectra of 32 singular values. *Decaying*: each 0.93 of the one before. *One idle "
        "direction*: all alike, but the last is 10⁻⁵ of them. In both the largest stands out. Low is good. Computed "
        "live.",
        "By the paper's definition the idle direction costs more "
        f"({idle['paper']:.2f} against {decaying['paper']:.2f}); with one value fewer the order turns "
        f"({idle['without_both']:.2f} against {decaying['without_both']:.2f}). Ours keeps all but the largest.",
    )
    return Finding(
        "singular-values",
        "rho depends on which singular values are kept",
        ROTH,
        f"an embedding with an idle direction has rho {idle['paper']:.2f} or {idle['without_both']:.2f}",
        "Keep every singular value but the largest, on every device.",
        (exhibit,),
    )


def ap_from_zero() -> Finding:
    """AP@R whose sum begins at a Precision@0, in the readings that it allows."""
    table = metrics.ap_from_zero()
    wrong = table.loc["second place wrong"]
    heads = {
        "from_one": "k = 1 to R",
        "literal": "with Precision@0",
        "shifted": "places from 0",
        "query": "query as place 0",
    }
    exhibit = Table(
        "ap-from-zero",
        cells(table, heads, table.columns, "ranking"),
        table,
        "AP@R in percent of three rankings with R = 3. A dash: undefined, 0/0. *Places from 0*: R + 1 neighbours "
        "count, which is mAP@C. *Query as place 0*: the query counts as a hit. Computed live.",
        f"Summed from k = 0, {percent(wrong['from_one'])} % becomes {percent(wrong['shifted'])} or "
        f"{percent(wrong['query'])} %; with the query as place 0 a perfect ranking exceeds 100 %.",
    )
    return Finding(
        "ap-from-zero",
        "AP@R summed from k = 0",
        "Oi et al. 2021, Eq. 1",
        f"undefined as written; other readings give a ranking with one error {percent(wrong['shifted'])} or "
        f"{percent(wrong['query'])} % instead of {percent(wrong['from_one'])} %",
        "Sum from k = 1.",
        (exhibit,),
        pair=Pair("AP@R of a ranking with one error", wrong["shifted"], wrong["from_one"]),
    )
