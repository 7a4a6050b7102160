"""Optimisers of hyperparameters on the recorded searches, and what it saves to end poor trials early.

`python -m benchmarks.hpo` (about an hour of a core; begun again, it goes on with new studies) writes two files into
dmlrc/report/measurements/. hpo.csv: Optuna's samplers on every problem of `dmlrc.bench`, answered by the random forest,
from ten seeds; a row a problem and sampler. best_10: the highest answer of ten evaluations, a fraction of MAP@R, the
mean over the seeds; ceiling: the highest of any; error and spread: see `dmlrc.bench.Objective`. halving.csv: each
recorded search as if Optuna's successive halving had watched it; see `halved`.
"""

import warnings
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
from tqdm import tqdm

from dmlrc import bench
from dmlrc.records import provenance, write_whole
from dmlrc.search import TPE
from dmlrc.studies.adapted import GRIDS_OF

RESULTS = Path(__file__).parents[1] / "dmlrc" / "report" / "measurements"
MAIN = GRIDS_OF
SAMPLERS: dict[str, Callable[[int], optuna.samplers.BaseSampler]] = {
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
    "tpe4": lambda seed: optuna.samplers.TPESampler(seed=seed, multivariate=False, constant_liar=False),
    "tpe5": lambda seed: optuna.samplers.TPESampler(seed=seed, **TPE),
    "cma-es": lambda seed: optuna.samplers.CmaEsSampler(seed=seed),
    "gp": lambda seed: optuna.samplers.GPSampler(seed=seed),
}
"""TPE by the defaults of Optuna 4 and of Optuna 5, the rest by those of the version that is installed. The Gaussian
process, to which a search takes ten times as long, is tried on `MAIN` alone."""
SEEDS = 10
EVALUATIONS = (10, 25, 50)
FACTORS = (2, 3, 4)
LEAST = 1 / 16  # of the longest training: where the first trials are ended


def problems() -> Iterator[tuple[str, str, str]]:
    """Study, method and sampler of all that is measured: the main tables first, the Gaussian process last."""
    of_main = [(study, method) for method in bench.methods(MAIN[0]) for study in MAIN]
    others = [(study, method) for study in bench.studies() if study not in MAIN for method in bench.methods(study)]
    cheap = [name for name in SAMPLERS if name != "gp"]
    yield from ((study, method, name) for study, method in of_main for name in cheap)
    yield from ((study, method, name) for study, method in others for name in cheap)
    yield from ((study, method, "gp") for study, method in of_main)


def searched(objective: bench.Objective, sampler: optuna.samplers.BaseSampler) -> np.ndarray:
    """The best value so far of a search, after each evaluation."""
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(objective, max(EVALUATIONS))
    return np.maximum.accumulate([trial.value for trial in study.trials])


def measured(objective: bench.Objective, samplers: list[str], seeds: int = SEEDS) -> list[dict]:
    """A row a sampler: see the module."""
    found = {name: np.array([searched(objective, SAMPLERS[name](seed)) for seed in range(seeds)]) for name in samplers}
    ceiling = max(objective.best, *(float(each.max()) for each in found.values()))
    of_problem = {
        "hyperparameters": len(objective.space),
        "ceiling": ceiling,
        "error": objective.error,
        "spread": objective.spread,
    }
    return [
        {"sampler": name, **of_problem, **{f"best_{n}": each[:, n - 1].mean() for n in EVALUATIONS}}
        for name, each in found.items()
    ]


def halved(curves: pd.DataFrame, factor: int, longest: int) -> dict[str, float]:
    """One recorded search under asynchronous successive halving, the trials in their order.

    curves: of `dmlrc.bench.curves`, of one search; longest: the steps of the longest training of the method. At each of
    the fractions 1 / factor, 1 / factor**2 ... of `longest`, down to `LEAST`, a trial goes on if it is among the best
    1 / factor of those that have come so far. saved: the share of all training steps; lost: how far the best trial that
    was trained whole lies below the best of all, in MAP@R.
    """
    by_step = curves.pivot(index="trial", columns="step")
    value, cost = (by_step[name].ffill(axis=1) for name in ("value", "cost"))
    rungs = sorted(longest / factor**power for power in range(1, 10) if factor**-power >= LEAST)
    places = [max(int(value.columns.searchsorted(rung, side="right")) - 1, 0) for rung in rungs]
    seen: list[list[float]] = [[] for _ in rungs]
    whole, spent = [], 0.0
    for values, costs in zip(value.to_numpy(), cost.to_numpy(), strict=True):
        for rung, place in zip(seen, places, strict=True):
            rung.append(values[place])
            if values[place] < sorted(rung, reverse=True)[max(len(rung) // factor, 1) - 1]:
                spent += costs[place]
                break
        else:
            whole.append(values[-1])
            spent += costs[-1]
    last = value.to_numpy()[:, -1]
    return {"saved": 1 - spent / cost.to_numpy()[:, -1].sum(), "lost": last.max() - max(whole)}


def halving() -> pd.DataFrame:
    """Every recorded search of the benchmark: study, method, repetition, factor, saved, lost."""
    rows = []
    for study in tqdm(bench.studies(), desc="halving"):
        for method in bench.methods(study):
            curves = bench.curves(study, method)
            for repetition, of_search in curves.groupby("repetition"):
                for factor in FACTORS:
                    place = {"study": study, "method": method, "repetition": repetition, "factor": factor}
                    rows.append(place | halved(of_search, factor, curves["step"].max()))
    return pd.DataFrame(rows)


def _write(rows: pd.DataFrame, file: str) -> None:
    write_whole(RESULTS / file, rows.to_csv(index=False, float_format="%.5f").encode())


def main() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    at = {"commit": provenance.commit()}
    _write(halving().assign(**at), "halving.csv")
    file = RESULTS / "hpo.csv"
    done = pd.read_csv(file, dtype={"commit": str}) if file.exists() else pd.DataFrame()
    for (study, method), samplers in tqdm(_missing(done), desc="searches"):
        rows = measured(bench.objective(study, method, "forest"), samplers)
        done = pd.concat([done, pd.DataFrame(rows).assign(study=study, method=method, **at)], ignore_index=True)
        _write(done, "hpo.csv")


def _missing(done: pd.DataFrame) -> list[tuple[tuple[str, str], list[str]]]:
    """Problems, and the samplers that each of them lacks."""
    known = set() if done.empty else set(done[["study", "method", "sampler"]].itertuples(index=False, name=None))
    left = [each for each in problems() if each not in known]
    groups = groupby(left, key=lambda each: each[:2])
    return [(problem, [sampler for *_, sampler in group]) for problem, group in groups]


if __name__ == "__main__":
    main()
