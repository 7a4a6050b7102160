"""How wide a study runs: what more workers would gain, by the durations of its recorded units, and what limits it."""

import heapq
from collections.abc import Iterable, Sequence

import pandas as pd

from dmlrc import papers, schedule
from dmlrc.protocol import Study
from dmlrc.records import StudyRecords

WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
PROPOSALS = (1, 2, 4, 8)
_PAPERS = [paper.key for paper in papers.ALL]
Chain = Sequence[Sequence[float]]
"""The seconds of the units of a method in one repetition, in stages: the trials, then the reruns."""


def makespan(chains: Sequence[Chain], workers: int, proposals: int = 1) -> float:
    """Seconds until all units are done, by so many workers, of which each runs one unit at a time.

    A stage begins when the one before it is done, and has at most `proposals` units under way. A free worker takes the
    next unit of the first chain that has one, in the order of `chains`. Nothing is lost between two units, and all
    workers are equally fast.
    """
    stages = [[list(stage) for stage in chain if len(stage)] for chain in chains]
    under_way, running, now = [0] * len(stages), [], 0.0
    while True:
        for number, chain in enumerate(stages):
            while chain and chain[0] and under_way[number] < proposals and len(running) < workers:
                heapq.heappush(running, (now + chain[0].pop(0), number))
                under_way[number] += 1
        if not running:
            return now
        now, number = heapq.heappop(running)
        under_way[number] -= 1
        if not stages[number][0] and not under_way[number]:
            stages[number].pop(0)


def chains(records: StudyRecords) -> list[Chain]:
    """The recorded chains of a study, the last methods first, as `dmlrc.study.run` takes them."""
    keys = ["method", "repetition"]
    stages = [
        frame.sort_values(number).groupby(keys, sort=False)["seconds"].agg(list).to_dict()
        for frame, number in ((records.trials, "trial"), (records.reruns, "rerun"))
    ]
    return [tuple(stage.get(key, ()) for stage in stages) for key in reversed({**stages[0], **stages[1]})]


def speed_ups(records: StudyRecords) -> pd.DataFrame:
    """How many times as fast as one worker: rows `WORKERS`, columns `PROPOSALS` at a time in each search.

    NaN where nothing is recorded.
    """
    recorded = chains(records)
    alone = makespan(recorded, 1) or float("nan")
    return pd.DataFrame(
        {count: [alone / (makespan(recorded, workers, count) or 1) for workers in WORKERS] for count in PROPOSALS},
        index=pd.Index(WORKERS, name="workers"),
    ).rename_axis(columns="proposals at a time")


def plan(studies: Iterable[Study]) -> pd.DataFrame:
    """What the papers' own tables, which need a GPU, ask for: a row a study; sweeps around them are left out.

    At once: how many units can be under way, one a method and repetition, and the untrained trunk. In a row: how many
    follow one another in the longest chain, which no number of workers makes shorter.
    """
    rows = {}
    for study in studies:
        protocol = study.protocol
        if protocol.computes_once or protocol.trunk == "conv4" or study.experiment not in (None, *_PAPERS):
            continue
        every = schedule.chains(study, study.methods)
        rows[study.name] = {
            "units": schedule.total(study, every),
            "training runs": sum(
                max(study.protocol_of(method).folds, 1) * (study.budget.trials + study.budget.reruns)
                for method, _ in every[1:]
            ),
            "at once": len(every),
            "in a row": study.budget.trials + study.budget.reruns,
            "expected": study.expected,
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("study")
