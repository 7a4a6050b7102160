"""All results in one table: a row a study, method and setting, with what a reader sorts and filters by."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from markupsafe import Markup

from dmlrc import papers, paths
from dmlrc.methods import Method
from dmlrc.papers import after2019
from dmlrc.protocol import TABLE
from dmlrc.records import PRETRAINED, StudyRecords, provenance
from dmlrc.report import about, common, editions, labels, statistics, tables, titles
from dmlrc.report.after2019.page import join_later_losses
from dmlrc.report.results_table import results_table
from dmlrc.studies import experiments

METRICS = ("map_at_r", "precision_at_1", "r_precision", "nmi")
SETTINGS = {
    "concatenated": "concatenated (folds joined)",
    "separated": "separated (one model)",
    "concatenated_binary": "concatenated, bits",
    "separated_binary": "separated, bits",
}
SEARCH_AND_SEED, SEARCHED_ONCE, SEED = "search and seed", "seed; searched once", "seed"
"""What an interval counts; nothing was searched where the seed is all there is."""


def every_result(edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """Every test score of the studies, of the tables beside them and of the experiments around each.

    A row a study, method, setting and metric. Columns: record (its slug), study (that it stands around), experiment,
    paper (whose protocol it follows), method, label, setting, metric, mean, ci95, n, rank_low, rank_high, tied (with
    the best), untrained (the trunk's mean), cut_off (see `tables.cut_off`), luck (what the interval counts), state
    (what became of a row without a score, else ""), apart (settings other than the protocol's). Ranks are among the
    trained methods of one study and setting (`ranks`); NaN where one is alone, or each was searched once and another
    study of the edition repeated its searches: chapters borrow the noise of search there, and ranks of seeds alone
    would contradict them.
    """
    repeated = any(records.searches > 1 for records in edition)
    scores = pd.concat([_rows(*parts) for parts in _recorded(edition)], ignore_index=True)
    unknown = repeated & (scores["luck"] == SEARCHED_ONCE)
    return scores.assign(**{name: scores[name].mask(unknown) for name in ("rank_low", "rank_high", "tied")})


def _recorded(edition: Sequence[StudyRecords]) -> Iterator[tuple[str, str, StudyRecords, StudyRecords]]:
    """Study, experiment, records, and those with which they are ranked: losses after 2019 beside the fourteen."""
    for main in [*edition, *editions.published_beside(edition)]:
        yield main.name, titles.METHODS_TABLE, main, main
        for name in experiments.experiments_around(main.name):
            if (around := editions.experiment_of(main.name, name)) is not None:
                yield main.name, name, around, join_later_losses(main, around) if name == "after2019" else around


def _rows(study: str, experiment: str, records: StudyRecords, ranked: StudyRecords) -> pd.DataFrame:
    frame = tables.accuracy(ranked) if records.searches > 1 else common.over_seeds(ranked)
    frame = frame[frame["setting"].isin(SETTINGS)]
    trunk = frame["mean"].where(frame["method"] == PRETRAINED).groupby([frame["setting"], frame["metric"]])
    rows = frame[["method", "setting", "metric", "mean", "ci95", "n"]].join(ranks(frame))
    rows["untrained"] = trunk.transform("max")
    rows = rows[rows["method"].isin(records.scores["method"].unique())]
    paper = records.meta["protocol"]["paper"]
    once = len(records.trials) or records.meta["kind"] == TABLE  # of a table without a search, elsewhere
    luck = SEARCH_AND_SEED if records.searches > 1 else SEARCHED_ONCE if once else SEED
    places = {"luck": luck, "record": records.name, "study": study, "experiment": experiment, "paper": paper}
    rows = rows.assign(state="")
    if fallen := tables.fallen(records):
        rows = pd.concat([rows, _without_score(records, fallen)], ignore_index=True)
    names = rows["method"].map(_labels(records, known_methods(paper)))
    apart = about.apart(records) if experiment == titles.METHODS_TABLE else {}
    places["apart"] = [apart.get(name, "") for name in rows["method"]]
    return rows.assign(**places, label=names, cut_off=rows["method"].map(tables.cut_off(records)))


def _without_score(records: StudyRecords, fallen: Mapping[str, str]) -> pd.DataFrame:
    """A row for each method that was run and has no score, without a rank, with what became of it (`tables.fallen`)."""
    shown = [setting for setting in SETTINGS if setting in set(records.scores["setting"])] or [*SETTINGS]
    row = {"setting": shown[0], "metric": METRICS[0], "n": 0, "tied": False}
    return pd.DataFrame(fallen.items(), columns=["method", "state"]).assign(**row)


def _labels(records: StudyRecords, known: Mapping[str, Method]) -> dict[str, str]:
    """The methods of a study as printed, by name; in a sweep with the level of each."""
    scored = records.scores.assign(level=common.score_levels(records))
    frames = (frame[["method", "row", "level"]] for frame in (scored, records.reruns, records.trials))
    places = pd.concat(frames).drop_duplicates("method")
    places["level"] = places["level"].astype(object).where(places["level"].notna(), None)
    return {row.method: label(row.row, row.level, known) for row in places.itertuples()}


def ranks(frame: pd.DataFrame) -> pd.DataFrame:
    """Ranks that each row may have, rank_low to rank_high, and tied, with the best; of a method alone NaN and False.

    frame: `tables.accuracy`, or as much of it as `common.over_seeds` has; ranks then count noise of seeds alone.
    """
    by = ["setting", "metric"]
    trained = frame[frame["method"] != PRETRAINED]
    placed = trained if "rank_low" in frame else statistics.by_luck_of_seeds(trained, by)
    several = trained.groupby(by)["method"].transform("size") > 1
    own = placed.loc[several, ["rank_low", "rank_high", "among_best"]].reindex(frame.index)
    return own.assign(tied=own.pop("among_best").eq(True))


def known_methods(key: str) -> dict[str, Method]:
    """All methods by name; where several have a name, the paper's, then those after 2019 and the Reality Check's."""
    of_paper = next((paper.methods for paper in papers.ALL if paper.key == key), ())
    others = [method for paper in papers.ALL for method in paper.methods]
    every = (*others, *tables.METHODS.values(), *after2019.METHODS, *of_paper)
    return {method.name: method for method in every}


def label(row: str, level: str | None, known: Mapping[str, Method]) -> str:
    """A method as printed, with its level in a sweep behind it.

    >>> label("triplet", "dim16", tables.METHODS), label("pretrained", None, {}), label("mine", None, {})
    ('Triplet, dim 16', 'Untrained trunk', 'mine')
    >>> label("triplet", "5x15", tables.METHODS), label("triplet", "search1-trials10", tables.METHODS)
    ('Triplet, 5x15', 'Triplet, search 1-trials 10')
    >>> label("triplet", "conv4-random", tables.METHODS), label("triplet", "timm:tf_efficientnet_lite0", tables.METHODS)
    ('Triplet, conv4, random', 'Triplet, EfficientNet-Lite0')
    """
    text = labels.UNTRAINED if row == PRETRAINED else known[row].label if row in known else titles.TRUNKS.get(row, row)
    if level and titles.trunk_level(level)[0] in titles.TRUNKS:
        return f"{text}, {titles.trunk_title(level)}"
    words = re.sub(r"(?<=[a-z])(?<!\dx)(?=\d)", " ", level or "")
    return f"{text}, {words}" if words else text


def result_cells(scores: pd.DataFrame) -> pd.DataFrame:
    """`every_result` as cells, a row a study, method and setting: MAP@R, its rank and ties, then the other metrics."""
    keys = ["record", "study", "experiment", "paper", "label", "setting"]
    scores = scores.drop_duplicates([*keys, "metric"])
    given = scores.rename(columns={"state": "text"}).drop(columns=["rank_low", "rank_high"])
    given["row"] = list(scores[keys].itertuples(index=False, name=None))
    given["column"] = pd.Categorical(scores["metric"].where(scores["metric"].isin(METRICS)), METRICS)
    given["cut_off"] = scores["cut_off"].where(scores["metric"] == METRICS[0])
    wide = results_table(given)[0].rename_axis(keys).sort_index()
    ranked = scores[scores["metric"] == METRICS[0]].set_index(keys).reindex(wide.index)
    runs = scores.groupby(keys)["n"].max().reindex(wide.index)
    own = wide.reset_index()
    table = pd.DataFrame(
        {
            "MAP@R": own["map_at_r"],
            "rank": [labels.rank_range(*pair) for pair in ranked[["rank_low", "rank_high"]].to_numpy(dtype=float)],
            "tied with the best": np.select([ranked["rank_low"].isna(), ranked["tied"].eq(True)], ["–", "yes"], "no"),
            "over untrained": [labels.signed(gain, 2, "") for gain in ranked["mean"] - ranked["untrained"]],
            **{labels.METRIC_LABELS[name]: own[name] for name in METRICS[1:]},
            about.NOT_AS_THE_PROTOCOL: scores.groupby(keys)["apart"].first().reindex(wide.index).to_numpy(),
            "study": own["study"].map(titles.title),
            "experiment": list(map(titles.experiment, own["experiment"], own["paper"])),
            "setting": own["setting"].map(SETTINGS),
            "runs": runs.astype(int).astype(str).to_numpy(),
            "± counts": np.where(runs > 1, scores.groupby(keys)["luck"].first().reindex(wide.index), "–"),
            "record": own["record"],
        }
    )
    order = list(scores["record"].unique())
    table = table.set_index(own["label"].rename("Method"))
    return table.sort_values("record", key=lambda names: names.map(order.index), kind="stable")


def linked(table: pd.DataFrame) -> pd.DataFrame:
    """Link each committed record of `result_cells` to its folder in the repository, if DMLRC_REPOSITORY is set."""
    if not (address := os.environ.get("DMLRC_REPOSITORY")):
        return table
    root = f"{address}/tree/{provenance.commit().removesuffix('-dirty')}"
    link = Markup('<a href="{}/results/{}/">{}</a>')
    here = {name: (paths.committed(name) / "meta.json").exists() for name in table["record"].unique()}
    links = [link.format(root, name, name) if here[name] else name for name in table["record"]]
    return table.assign(record=pd.Series(links, table.index, dtype=object))  # plain strings would forget their `Markup`
