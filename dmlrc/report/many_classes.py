"""Many classes of few images, on icons: what they change in scores, and what weights for every class cost a loss."""

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from dmlrc import models, studies
from dmlrc.building import build_loss
from dmlrc.data import icons
from dmlrc.records import PRETRAINED, StudyRecords
from dmlrc.report import common, editions, labels, statistics, tables, titles
from dmlrc.report.results_table import results_table, with_foot
from dmlrc.report.significance import measures as significance
from dmlrc.report.speed import MEASUREMENTS
from dmlrc.report.statistics import Estimate
from dmlrc.report.untrained import nmi_of_random
from dmlrc.studies.catalogue import ICONS

METRICS = ("map_at_r", "precision_at_1", "nmi")
COPIES = 4
"""The numbers that training keeps for a weight: itself, its gradient, and RMSprop's two averages, of 4 bytes each."""


def icon_counts() -> dict[str, int]:
    """Counts of the data set: icons, drawn (a style of each), images (those that differ), classes.

    joined: classes of several icons, which share an image. icons_joined: their icons. single: classes of one image.
    """
    drawn = icons.read_icons(icons.FOLDER)
    of_class, images = (table["class"].value_counts() for table in (drawn.icons, drawn.images))
    several = of_class[of_class > 1]
    return {
        "icons": len(drawn.icons),
        "drawn": len(drawn.icons) * len(icons.STYLES),
        "images": len(drawn.images),
        "classes": len(images),
        "joined": len(several),
        "icons_joined": int(several.sum()),
        "single": int((images == 1).sum()),
    }


def of_icons(edition: Sequence[StudyRecords]) -> list[StudyRecords]:
    """The studies on icons, of an edition and beside it."""
    by_name = {study.name: study for study in (*edition, *editions.published_beside(edition))}
    return [study for study in by_name.values() if study.meta["dataset"] == "icons"]


def metric_means(records: StudyRecords) -> pd.DataFrame:
    """Test scores with the folds joined, fractions: a row a method, the untrained network too, a column a metric."""
    frame = tables.accuracy(records)
    means = frame[frame["setting"] == "concatenated"].pivot(index="method", columns="metric", values="mean")
    return means.reindex(index=tables.ordered(means.index), columns=list(METRICS))


def lead_of_pairs(records: StudyRecords) -> Estimate | None:
    """MAP@R of the losses of pairs and triplets less that of the losses with class vectors: means over the losses.

    Of the eight that the study of icons has; None where one of the two kinds is missing.
    """
    kinds = {method.name: method.kind for method in studies.get(ICONS).methods}
    compared = significance.compare(records).only(kinds)
    count, signs = Counter(map(kinds.get, compared.methods)), {"embedding": 1, "classification": -1}
    if len(count) < 2:
        return None
    weights = {name: signs[kinds[name]] / count[kinds[name]] for name in compared.methods}
    return statistics.contrast(compared.runs, weights, compared.known)


def shape_cells(compared: Sequence[StudyRecords]) -> pd.DataFrame:
    """Studies of many and of few classes as cells, a row a study: means over the losses, and how far training lifts.

    NMI of chance: `nmi_of_random`, of classes of equal size. The correlation of MAP@R and P@1 is by ranks, of losses.
    """
    rows = []
    for study in compared:
        (classes, images), scores = tables.shape(study), metric_means(study)
        trained = scores.drop(index=PRETRAINED, errors="ignore")
        rho = statistics.correlation(trained["map_at_r"], trained["precision_at_1"], ranks=True, units="methods")
        cells = [("test classes", classes, ",.0f"), ("images a class", images, ".1f")]
        cells += [(labels.METRIC_LABELS[name], trained[name].mean(), ".1%") for name in METRICS[:2]]
        cells.append(("NMI of chance", nmi_of_random(classes, images), ".1%"))
        cells.append(("lift of MAP@R", tables.lift(scores["map_at_r"]), "+.2%"))
        rows += [{"row": titles.title(study.name), "column": head, "mean": mean, "form": f} for head, mean, f in cells]
        ends = {"mean": rho.value, "low": rho.low, "high": rho.high, "form": ".2f"}
        rows.append({"row": titles.title(study.name), "column": "MAP@R with P@1, by rank"} | ends)
        if lead := lead_of_pairs(study):
            ends = {"mean": lead.value, "half": lead.half, "form": "+.1%"}
            rows.append({"row": titles.title(study.name), "column": "pairs over class vectors"} | ends)
    return results_table(pd.DataFrame(rows))[0].rename_axis("Study")


def loss_cells(records: StudyRecords) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Cells and marks of the scores, a row a loss; last the lift."""
    frame = tables.accuracy(records)
    frame = frame[(frame["setting"] == "concatenated") & frame["metric"].isin(METRICS)]
    frame = frame.sort_values("metric", key=lambda names: names.map(METRICS.index), kind="stable")
    frame["untrained"] = frame["metric"].map(metric_means(records).T.get(PRETRAINED, {}))
    ranked = frame["metric"] == "map_at_r"
    frame[["rank_low", "rank_high"]] = frame[["rank_low", "rank_high"]].where(ranked)
    frame["cut_off"] = frame["method"].map(tables.cut_off(records)).where(ranked)
    rows = common.in_order(frame["method"], tables.ordered(frame["method"]), labels.method_label)
    heads = frame["metric"].map(labels.METRIC_LABELS)
    cells, marks = results_table(with_foot(frame.assign(row=rows, column=heads, mark=tables.marks(frame))))
    return cells.rename_axis("Method"), marks.rename_axis("Method")


def step_times() -> pd.DataFrame:
    """Milliseconds of a training step on a CPU core: a row a method, a column a number of training classes."""
    return measured_steps().pivot(index="method", columns="classes", values="ms")


def measured_steps() -> pd.DataFrame:
    """Read what `benchmarks.classes` measured: method, classes, ms, load, machine, device, torch, date, commit."""
    return pd.read_csv(MEASUREMENTS / "classes.csv", dtype={"commit": str})


def bytes_of_weights(records: StudyRecords, classes: int) -> pd.Series:
    """Bytes of a loss's own weights in training, by method; see `COPIES`."""
    known, dim = studies.get(records.name), records.meta["protocol"]["embedding_dim"]
    built = {method.name: build_loss(method, {}, classes, dim) for method in known.methods}
    sizes = {name: sum(weight.numel() for weight in loss.parameters()) for name, loss in built.items()}
    return 4 * COPIES * pd.Series(sizes)


def costs_by_classes(records: StudyRecords) -> pd.DataFrame:
    """Steps and weights of the losses of a study as cells, by the number of training classes of `step_times`."""
    times = step_times()
    sizes = pd.DataFrame({count: bytes_of_weights(records, count) for count in times})
    megabytes = sizes.map(lambda size: f"{size / 1e6:,.1f}" if size else "–")
    parts = {"ms a step": times.map("{:.1f}".format), "weights, MB": megabytes}
    cells = pd.concat(parts, axis=1).rename(columns="{:,} classes".format, level=1)
    return cells.loc[tables.ordered(cells.index)].rename(index=labels.method_label).rename_axis("Method")


def numbers(records: StudyRecords) -> dict[str, float]:
    """The numbers behind the page's text: `icon_counts`, scores in percent, megabytes, and how much longer steps take.

    slower.LOSS.COUNT: its step over contrastive's with so many training classes. megabytes.LOSS.COUNT: of its weights.
    """
    scores, times = metric_means(records), step_times()
    trained = scores.drop(index=PRETRAINED, errors="ignore")
    trunk = models.create_trunk(records.meta["protocol"]["trunk"], weights=None)
    named = {name: 100 * trained[name].mean() for name in METRICS}
    named |= {f"{name}.untrained": 100 * scores[name].get(PRETRAINED, float("nan")) for name in METRICS}
    named |= {f"{name}.lift": 100 * tables.lift(scores[name]) for name in METRICS}
    named["rho"] = statistics.correlation(trained["map_at_r"], trained["precision_at_1"], ranks=True).value
    if lead := lead_of_pairs(records):
        named |= {"pairs": 100 * lead.value, "pairs.low": 100 * lead.low}
    named["nmi.chance"] = 100 * nmi_of_random(*tables.shape(records))
    for count in times:
        named |= {f"slower.{name}.{count}": ms / times.loc["contrastive", count] for name, ms in times[count].items()}
        named |= {f"megabytes.{name}.{count}": size / 1e6 for name, size in bytes_of_weights(records, count).items()}
    named["megabytes.network"] = 4e-6 * COPIES * sum(weight.numel() for weight in trunk.parameters())
    return named | icon_counts()
