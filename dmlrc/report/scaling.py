"""Workers that a study can use: the gain from more, by the durations of its recorded units, and what limits it."""

import heapq
from collections.abc import Iterable, Sequence

import pandas as pd

from dmlrc import papers, paths
from dmlrc.protocol import Study
from dmlrc.records import StudyRecords, derived_once
from dmlrc.report import labels, titles
from dmlrc.report.statistics import half_width

WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
PROPOSALS = (1, 2, 4, 8)
_PAPERS = [paper.key for paper in papers.ALL]
Chain = Sequence[Sequence[float]]
"""The seconds of the units of a method in one repetition, in stages: the batches of trials, then the reruns."""


def makespan(chains: Sequence[Chain], workers: int) -> float:
    """Seconds until all units are done, by so many workers, of which each runs one unit at a time.

    A stage begins when the one before it is done. A free worker takes the next unit of the first chain that has one, in
    the order of `chains`. Nothing is lost between two units, and all workers are equally fast.
    """
    stages = [[list(stage) for stage in chain if len(stage)] for chain in chains]
    under_way, running, now = [0] * len(stages), [], 0.0
    while True:
        for place, chain in enumerate(stages):
            if len(running) == workers:
                break
            while chain and chain[0] and len(running) < workers:
                heapq.heappush(running, (now + chain[0].pop(0), place))
                under_way[place] += 1
        if not running:
            return now
        now, place = heapq.heappop(running)
        under_way[place] -= 1
        if not stages[place][0] and not under_way[place]:
            stages[place].pop(0)


def chains(records: StudyRecords, proposals: int = 1) -> list[Chain]:
    """The recorded chains of a study, last methods first, as `dmlrc.run` takes them; proposals: trials of a stage."""
    keys = ["method", "repetition"]
    trials, reruns = (
        frame.sort_values(order).groupby(keys, sort=False)["seconds"].agg(list).to_dict()
        for frame, order in ((records.trials, "trial"), (records.reruns, "rerun"))
    )
    batches = {
        key: [seconds[first : first + proposals] for first in range(0, len(seconds), proposals)]
        for key, seconds in trials.items()
    }
    return [(*batches.get(key, ()), reruns.get(key, ())) for key in reversed({**trials, **reruns})]


@derived_once(lambda study: study)
def speed_ups(records: StudyRecords) -> pd.DataFrame:
    """Speed as a multiple of one worker's: rows `WORKERS`, columns `PROPOSALS` at a time; NaN without records."""
    alone = makespan(chains(records), 1) or float("nan")
    by_count = {count: chains(records, count) for count in PROPOSALS}
    gains = {count: [alone / (makespan(row, workers) or 1) for workers in WORKERS] for count, row in by_count.items()}
    return pd.DataFrame(gains, pd.Index(WORKERS, name="workers")).rename_axis(columns="proposals at a time")


def played() -> pd.DataFrame:
    """Recorded searches played again on surrogates, with several proposals at a time: see `benchmarks.proposals`.

    Columns study, method, seed, trials, proposals, value, best, spread. Empty where the file is not here.
    """
    path = paths.home() / "benchmarks" / "results" / "search_proposals.csv"
    columns = ["study", "method", "seed", "trials", "proposals", "value", "best", "spread"]
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=columns)


def lost(played: pd.DataFrame) -> pd.DataFrame:
    """The cost of proposing several trials at a time, in MAP@R (fractions): rows trials and proposals.

    short: how far the picked setting is below the best there is; lost: how much further than one at a time, mean over
    searches, and ci95, the half width of its interval (each search is one number, its mean over seeds); lost_share: the
    same in standard deviations of the recorded trials; searches: how many.
    """
    keys = ["study", "method", "trials", "proposals"]
    means = played.groupby(keys, sort=False)[["value", "best", "spread"]].mean().reset_index("proposals")
    alone = means[means["proposals"] == 1]["value"]
    rows = {}
    for (count, proposals), part in means.groupby(["trials", "proposals"]):
        difference = alone.reindex(part.index) - part["value"]
        short, share = (part["best"] - part["value"]).mean(), (difference / part["spread"]).mean()
        half = half_width(difference) if proposals > 1 else float("nan")
        rows[count, proposals] = short, difference.mean(), half, share, len(part)
    columns = ["short", "lost", "ci95", "lost_share", "searches"]
    index = pd.MultiIndex.from_tuples(rows, names=["trials", "at a time"])
    return pd.DataFrame(list(rows.values()), index, columns)


def lost_cells(table: pd.DataFrame) -> pd.DataFrame:
    """`lost` as cells, in points of MAP@R."""
    shown = {"short": "below the best there is", ("lost", "ci95"): ("lost against one at a time", "+.2%")}
    shown |= {"lost_share": ("in spreads of the trials", "+.2f")}
    several = table.drop(index=1, level="at a time")  # one at a time is what is compared with
    return labels.cells(table.assign(lost=several["lost"], lost_share=several["lost_share"]), shown)


def planned_tables(studies: Iterable[Study]) -> pd.DataFrame:
    """The demands of the papers' own tables, which need a GPU: one row per study; sweeps around them are left out.

    At once: how many units can be under way, the reruns of each method and repetition, and the untrained trunk. In a
    row: how many follow one another in the longest chain, which no number of workers makes shorter.
    """
    rows = {}
    for study in studies:
        protocol = study.protocol
        if protocol.computes_once or protocol.trunk == "conv4" or study.experiment not in (None, *_PAPERS):
            continue
        budget, searches = study.budget, len(study.methods) * study.repetitions
        models = study.repetitions * sum(max(study.protocol_of(method).folds, 1) for method in study.methods)
        runs, at_once = models * (budget.trials + budget.reruns), 1 + searches * budget.reruns
        numbers = study.units, runs, at_once, budget.trials + 1
        rows[study.name] = titles.paper(protocol.paper), *numbers, study.expected, study.name
    columns = ["protocol of", "units", "training runs", "at once", "in a row", "expected", "name"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("study")
