"""Editions: the studies that a book, or a chapter, is made of. What a reader types is read here and nowhere else."""

from collections.abc import Iterable, Sequence

from dmlrc import paths, records, studies
from dmlrc.errors import DmlrcError, MissingDataError, UsageError
from dmlrc.names import current
from dmlrc.protocol import EXPERIMENT, RATES, TABLE
from dmlrc.records import StudyRecords
from dmlrc.report import repetitions
from dmlrc.studies import experiments
from dmlrc.studies.catalogue import DEPTHS, ICONS, MOBILENETS, TOO_HIGH_A_RATE

PUBLISHED, QUICK = "published", "quick"
"""The named editions; the second has one study, `QUICK_STUDY`."""
QUICK_STUDY = "grocery-quick"
FIRST = ("cub200-2010-frozen", "cars196crops-frozen", "grocery-frozen")
"""The studies of the published book: CUB is the data set that all five papers share. The text is about these alone."""


def study_names(edition: str) -> list[str]:
    """The studies of an edition: "quick", "published", names of studies, or several of these joined by commas.

    Published are those of `FIRST` whose full-budget records are committed; the experiments around them come along.
    Raises DmlrcError where there are none. Whether a study of this name exists is not asked: records do.
    """
    return list(dict.fromkeys(name for part in _parts(edition) for name in _named(part)))


def divided(edition: str) -> tuple[list[str], list[str], list[str]]:
    """The studies of an edition that chapters show, those to train first, and those on the page "Your run" alone.

    With published ones, chapters show these as they are, and all others stand apart; else all are trained and shown.
    """
    names = study_names(edition)
    if PUBLISHED not in _parts(edition):
        return names, names, []
    shown = study_names(PUBLISHED)
    return shown, [], [name for name in names if name not in shown]


def _parts(edition: str) -> list[str]:
    """Raises UsageError for what names no study."""
    parts = [part.strip() for part in edition.split(",")] if isinstance(edition, str) else []
    if not all(parts) or not parts:
        raise UsageError(f"studies is {edition!r}: give the name of a study, or several joined by commas")
    return parts


def _named(part: str) -> list[str]:
    """The studies of one part of an edition."""
    if part != PUBLISHED:
        return [QUICK_STUDY if part == QUICK else current(part)]
    published = [name for name in FIRST if records.is_published(name)]
    if not published:
        raise DmlrcError(
            f"no study is published in {paths.home()}: go into a clone of the project, with chapters and records, or "
            "name it in DMLRC_HOME; without records, `dmlrc book quick` makes a book there"
        )
    return published


def is_yours(study: str) -> bool:
    """True if a study is a reader's own: begun in a clone that has published studies, and none of these."""
    return records.is_begun(study) and bool(published := records.published()) and study not in published


def load_edition(edition: str, train: bool = False, papers: Sequence[str] = ()) -> list[StudyRecords]:
    """The records of every study of an edition; of one under way the repetitions that all methods have finished.

    train: first run what is missing of them, and of the experiments of these papers around them. Raises UsageError,
    with the nearest name, for a study that does not exist, and for one that is no methods table; MissingDataError for
    one that was not run, or of which no rerun has ended.
    """
    if train:
        from dmlrc.report import missing  # with torch, which pages alone need not

        missing.run_missing(study_names(edition), papers)
    return [repetitions.whole(_table(study)) for study in load_any(edition)]


def published_beside(edition: Sequence[StudyRecords]) -> list[StudyRecords]:
    """The published tables that no edition shows in every chapter: first runs, depths of training, icons.

    Depths and icons stand beside one of `FIRST`; also one that is not complete, where the preregistration judges what
    is there.
    """
    from dmlrc.report.hypotheses import whole  # which imports this module

    mains = [study.name for study in edition]
    first_runs = [name for main, name in TOO_HIGH_A_RATE.items() if main in mains and studies.get(name).parent is None]
    others = (*DEPTHS, *MOBILENETS, ICONS) if set(FIRST) & set(mains) else ()
    under_way = whole.recorded_networks()
    names = (name for name in (*first_runs, *others) if name in under_way or records.is_published(name))
    return [records.load(name) for name in names]


def load_any(edition: str) -> list[StudyRecords]:
    """The records of every study of an edition, experiments among them: for what is said of how they were made."""
    return [_load(name) for name in study_names(edition)]


def _table(study: StudyRecords) -> StudyRecords:
    folds, trials = study.meta["protocol"]["folds"], study.meta["budget"]["trials"]
    require_table(study.name, study.meta["kind"], study.meta["parent"], trials, folds)
    if study.reruns.empty and (study.trials["state"] == "complete").any():
        raise MissingDataError(
            f"study {study.name!r} has no finished rerun yet: `dmlrc study run {study.name}` goes on with it, and "
            f"`dmlrc study show {study.name}` has what is there"
        )
    return study


def require_table(name: str, kind: str, parent: str | None, trials: int, folds: int) -> None:
    """Raise UsageError for a study that is no methods table, around which the chapters find everything else.

    Nor is one of a single fold: tables rank by the models of several folds joined.
    """
    if kind == TABLE and trials:
        if folds > 1:
            return
        raise UsageError(
            f"study {name!r} has one fold, but chapters show what the models of several folds reach together: give "
            f"one with folds = 2 or more; `dmlrc study show {name}` shows it alone"
        )
    what = {RATES: "tried learning rates of", EXPERIMENT: "is an experiment around"}.get(kind)
    problem = f"{what} {parent!r}" if what else "has no searches"
    raise UsageError(
        f"study {name!r} {problem}, but chapters are made of methods tables: give "
        f"{f'{parent!r}, and it comes along' if what else 'one of `dmlrc study list`'}; `dmlrc study show {name}` "
        "shows it alone"
    )


def _load(name: str) -> StudyRecords:
    try:
        return records.load(name)
    except MissingDataError:
        studies.get(name)  # a misspelt name has no records either, and wants another answer
        raise


def records_around(edition: Iterable[StudyRecords], experiment: str) -> dict[str, StudyRecords]:
    """An experiment around the studies of an edition: study -> its records, of those around which it was run."""
    around = ((main.name, experiment_of(main.name, experiment)) for main in edition)
    return {name: records for name, records in around if records}


def experiment_of(main: str, experiment: str) -> StudyRecords | None:
    """The records of an experiment around a study; of one under way with repetitions, the finished ones alone."""
    study = experiments.load_experiment(main, experiment)
    return study and repetitions.whole(study)


def with_searched_rates(main: str) -> StudyRecords | None:
    """The table around a study with the rates searched too: three times in 100 trials, else once in 50.

    Of one under way the methods that are finished: three or more, contrastive among them, as many as the other has.
    """
    around = (experiments.load_experiment(main, name) for name in ("rates-searched", "rate-searched"))
    finished = map(repetitions.of_finished_methods, filter(None, around))
    names = ((study, {*study.trials["method"]}) for study in finished)
    enough = ((study, len(methods)) for study, methods in names if len(methods) > 2 and "contrastive" in methods)
    return max(enough, key=lambda pair: pair[1], default=(None, 0))[0]


def tables_beside(edition: Sequence[StudyRecords]) -> list[StudyRecords]:
    """The other tables with losses of an edition: at ten times the rate, with rates searched too, at other depths."""
    tenfold = records_around(edition, "rate-tenfold").values()
    searched = filter(None, (with_searched_rates(main.name) for main in edition))
    return [*tenfold, *searched, *published_beside(edition)]
