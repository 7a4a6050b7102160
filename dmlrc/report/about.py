"""The studies behind the numbers of a page, and how the page is cited; stands folded at the foot of each chapter."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from dmlrc import papers, paths, studies
from dmlrc.methods import LEARNING_RATE
from dmlrc.protocol import Study
from dmlrc.records import StudyRecords, derived_once, find, provenance
from dmlrc.report import labels, rates, titles
from dmlrc.studies import experiments

PAPERS = {paper.chapter: paper.key for paper in papers.ALL if paper.key != "musgrave2020"}
"""The chapters about a paper's experiments around the methods tables, and whose protocol these follow."""
EXPERIMENTS = {
    "07_losses_after_2019": ("after2019",),
    "method": ("after2019",),
    "11_roth2020": ("trunks",),
    "18_losses_of_the_other_papers": ("roth2020", "fehervari2019", "zhai2019/losses"),
}
"""Experiments that a page shows besides those of its own paper."""
GRIDS = ("03_a_fair_race", "08_what_moves_a_score", "09_how_much_of_the_network_trains")
"""The chapters about the grids of learning rates."""
EVERYTHING = ("00_introduction", "17_report_card", "08_what_moves_a_score", "19_all_results")
"""The chapters that rest on every experiment around the methods tables: too many for the foot, which has none."""


def study_table(chapter: str, edition: Sequence[StudyRecords]) -> pd.DataFrame:
    """The recorded studies and experiments behind a chapter's numbers: one row each, indexed by the study's slug."""
    rows = {records.name: row(records) for records in _shown(chapter, edition)}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("Study")


def shown_studies(chapter: str, edition: Sequence[StudyRecords]) -> list[str]:
    """The studies that `study_table` has a row of, and the experiments without one because they were not run."""
    around = (study for main in edition for study in experiments.experiments_around(main.name).values())
    of_paper = [study.name for study in around if _belongs(study, chapter)]
    return [*(records.name for records in edition), *of_paper, *(grid.name for grid in _grids(chapter, edition))]


def _grids(chapter: str, edition: Sequence[StudyRecords]) -> list[StudyRecords]:
    grids = (grid for main in edition for grid in (rates.grid_of(main), find(f"{main.name}/embedder-rates")))
    return list({grid.name: grid for grid in grids if grid}.values()) if chapter in GRIDS else []


def _shown(chapter: str, edition: Sequence[StudyRecords]) -> Iterator[StudyRecords]:
    for main in edition:
        yield main
        around = experiments.experiments_around(main.name).items()
        several = (experiments.load_experiment(main.name, name) for name, study in around if _belongs(study, chapter))
        yield from filter(None, several)
    yield from _grids(chapter, edition)


def _belongs(study: Study, chapter: str) -> bool:
    """True if a chapter is about this study's experiment or its paper."""
    return study.experiment in EXPERIMENTS.get(chapter, ()) or study.protocol.paper == PAPERS.get(chapter, "")


def row(records: StudyRecords) -> dict[str, str]:
    """The data, protocol, budget, seed, commit, date, machine and packages behind a study's numbers, as text."""
    meta, where = records.meta, records.meta["environment"]
    data, shown = meta["data"], titles.title(records.name)
    processor, device = (environments(records, name) for name in ("processor", "device"))
    if meta["kind"] == "experiment" and meta["experiment"] not in titles.RATES:  # several would have one title
        shown += f": {titles.experiment(meta['experiment'], meta['protocol']['paper'])}"
    return {
        "shown as": shown,
        "data": f"{labels.dataset(records)}: {data['images']:,} images, {data['classes']:,} classes"
        + ("; random order" if meta["class_order"] == "random" else ""),
        "protocol": f"{meta['protocol']['name']}: {labels.trunk(meta['protocol'])}",
        "budget": _budget(records),
        "seed": str(meta["seed"]),
        "commit": environments(records, "commit"),
        "begun": meta["created"][:10],
        "machine": f"{processor}, {labels.plural(where['cores'], 'core')}, {device}",
        "with": ", ".join(f"{name} {version}" for name, version in packages(records).items()),
    }


def packages(records: StudyRecords) -> dict[str, str]:
    """The versions of the packages that made a study: of torch all of them, of the others those of its beginning."""
    versions = records.meta["environment"]["packages"] | {"torch": environments(records, "torch")}
    return {name: version for name, version in versions.items() if version}


@derived_once(lambda *of: of)
def environments(records: StudyRecords, column: str) -> str:
    """The commits, processors, devices or versions of torch that made a study, each with its methods if not one.

    column: "commit", "processor", "device" or "torch". Records that do not say it are of the study's beginning.
    """
    where = records.meta["environment"]
    begun = {"torch": where["packages"].get("torch", "")} | where | {"commit": records.meta["commit"]}
    first = begun.get(column, "")
    of_both = (value for frame in (records.trials, records.reruns) for value in frame[column].unique())
    values = {first if pd.isna(value) else value for value in of_both}
    if len(values) < 2:
        return values.pop() if values else first
    units = pd.concat([frame[["method", "row", column]] for frame in (records.trials, records.reruns)])
    unit = "methods" if units["row"].nunique() == units["method"].nunique() else "rows"  # of a sweep
    named = units.assign(**{column: units[column].astype(object).fillna(first)})
    names = named.groupby(column, sort=False)["method"].unique()
    study = studies.known().get(records.name)
    known = {method.name: method.label for method in study.methods} if study else {}
    return "; ".join(f"{value} ({_methods(those, known, unit)})" for value, those in names.items())


def _methods(names: Sequence[str], known: Mapping[str, str], unit: str) -> str:
    if len(names) > 3:
        return f"{len(names)} {unit}"
    shown = (known.get(name) or labels.method_label(name) for name in names)
    text = ", ".join(re.sub(", (.*)", r" (\1)", name) for name in shown)  # what stands behind a comma, in brackets
    for trunk, title in titles.TRUNKS.items():
        text = text.replace(trunk, title)
    return text


def bibtex(chapter: str = "") -> str:
    """The entry that cites a page of this book, or the book: title, authors and year as CITATION.cff has them."""
    import yaml  # comes with what builds a book

    file = paths.home() / "CITATION.cff"
    known = yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else {}
    parts = [[of.get(part) for part in ("name", "family-names", "given-names")] for of in known.get("authors", ())]
    fields = {
        "title": known.get("title"),
        "author": " and ".join(f"{{{name}}}" if name else f"{family}, {given}" for name, family, given in parts),
        "year": str(known.get("date-released", ""))[:4],
        "note": f"commit {provenance.commit()}{f', page {chapter}' if chapter else ''}",
    }
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items() if value)
    return f"@misc{{dmlrc{'-' * bool(chapter)}{chapter},\n{lines}}}"


def _budget(records: StudyRecords) -> str:
    budget, searches = records.meta["budget"], records.meta.get("repetitions", 1)
    folds = records.meta["protocol"]["folds"]
    if not budget["trials"]:
        done = records.reruns.groupby("method").size().max() if len(records.reruns) else 0
        fewer = f"{done} of " if 0 < done < budget["reruns"] else ""
        search, runs = "no search", f"{fewer}{labels.plural(budget['reruns'], 'run')} a row"
    else:
        search = f"{searches} search{'es' * (searches > 1)} of {labels.plural(budget['trials'], 'trial')}"
        most = records.trials["proposals"].max() if len(records.trials) else 1
        search += f" (at a time: up to {most:.0f})" if most > 1 else ""
        runs = f"{labels.plural(budget['reruns'], 'rerun')} each"
    return f"{budget['name']}: {search}, {runs}, {labels.plural(folds, 'fold') if folds else 'no folds'}"


NOT_AS_THE_PROTOCOL = "not as the protocol"
"""The column of a table that has what `apart` says."""
_PARTS = ("batches", "training", "settings", "space")
"""Of a fingerprint, what may say that a method departs from its protocol."""


def apart(records: StudyRecords) -> dict[str, str]:
    """Settings, as printed, in which methods differ from the protocol, or by the size of a batch from most others."""
    units, own = pd.concat([records.trials, records.reruns]).reindex(columns=["method", "fingerprint"]).dropna(), {}
    for method, text in units.drop_duplicates("method", keep="last").to_numpy():
        batches, training, fixed, space = (json.loads(text)[part] for part in _PARTS)
        sampler, size = batches["sampler"], batches["classes_per_batch"] * batches["images_per_class"]
        given = training | {"sampler": sampler["name"] if isinstance(sampler, dict) else sampler, "batch_size": size}
        given["lr"] = "searched" if LEARNING_RATE in space else fixed.get(LEARNING_RATE)
        own[method] = {name: value for name, value in given.items() if value is not None}
    usual = pd.Series([given["batch_size"] for given in own.values()], dtype=int).mode()
    protocol = records.meta["protocol"] | dict(zip(["batch_size"], usual, strict=False))
    changes = records.meta.get("changes", {})
    texts = {
        method: ", ".join(
            f"{labels.SETTING_LABELS.get(name, name)} {labels.setting(name, value)}"
            for name, value in {**own.get(method, {}), **changes.get(method, {})}.items()
            if value != protocol.get(name)
        )
        for method in {**own, **changes}
    }
    return {method: words for method, words in texts.items() if words}
