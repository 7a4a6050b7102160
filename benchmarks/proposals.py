"""What it costs to propose several trials of a search at a time: recorded searches played again on a surrogate.

`python -m benchmarks.proposals --write benchmarks/results/search_proposals.csv` (some minutes). Each recorded search of
a methods table gives a surrogate of its validation MAP@R: a Gaussian process over the unit cube of its space, fitted to
the trials. The search is played on it from several seeds, one trial at a time and several; what a trial returns is the
surrogate's mean and noise of the size that the fit found. Ways share the seed, so the first ten trials, which are
random, and the noise of a trial. The search takes its best trial by the noisy values; it is judged by the mean there.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import qmc
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern, WhiteKernel
from tqdm import tqdm

from dmlrc import records, search, studies
from dmlrc.methods import Method

STUDIES = (
    "first-runs/grocery-frozen",
    "first-runs/cars196crops-frozen",
    "first-runs/grocery-frozen/after2019",
    "first-runs/cars196crops-frozen/after2019",
)
TRIALS = (20, 50)
PROPOSALS = (1, 2, 4, 8)
SEEDS = 10
FEWEST = 25  # complete trials to which a surrogate is fitted


class Surrogate:
    """The mean validation MAP@R of a method's hyperparameters, and the standard deviation of what a trial says of it.

    trials: the finished ones, see `dmlrc.search.propose`.
    """

    def __init__(self, method: Method, trials: Sequence[dict]):
        self._space = method.space
        complete = [trial for trial in trials if trial["state"] == "complete"]
        values = np.array([trial["value"] for trial in complete])
        self._centre, self._scale = values.mean(), values.std()
        kernel = Matern(np.full(len(self._space), 0.5), (0.05, 20.0), nu=2.5) + WhiteKernel(0.1, (1e-4, 1.0))
        self._process = GaussianProcessRegressor(kernel, n_restarts_optimizer=2, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a parameter without effect has a length scale at its bound
            cube = self._cube([trial["params"] for trial in complete])
            self._process.fit(cube, (values - self._centre) / self._scale)
        self.noise = self._scale * float(np.sqrt(self._process.kernel_.k2.noise_level))

    def __call__(self, params: Sequence[dict]) -> np.ndarray:
        return self._centre + self._scale * self._process.predict(self._cube(params))

    def best(self) -> float:
        """The highest mean in the space, among 4,096 points that fill it evenly."""
        cube = qmc.Sobol(len(self._space), seed=0).random(4096)
        return self._centre + self._scale * float(self._process.predict(cube).max())

    def _cube(self, params: Sequence[dict]) -> np.ndarray:
        columns = []
        for name, space in self._space.items():
            values, low, high = np.array([each[name] for each in params], float), space.low, space.high
            if getattr(space, "log", False):
                values, low, high = np.log(values), np.log(low), np.log(high)
            columns.append((values - low) / (high - low))
        return np.stack(columns, axis=1)  # (trials, hyperparameters)


def play(
    method: Method, value: Callable[[Sequence[dict]], np.ndarray], noise: float, count: int, proposals: int, seed: int
) -> list[dict]:
    """A search of `count` trials on a surrogate, as `dmlrc.plan` proposes them: params, value (noisy) and mean."""
    errors = noise * np.random.default_rng(seed).standard_normal(count)
    trials = []
    while len(trials) < count:
        batch = []
        while len(batch) < min(proposals, count - len(trials)):
            batch.append(search.propose(method, trials, seed, batch))
        trials += [
            {"params": params, "value": mean + errors[len(trials) + place], "mean": mean, "state": "complete"}
            for place, (params, mean) in enumerate(zip(batch, value(batch), strict=True))
        ]
    return trials


def measure(names: Sequence[str] = STUDIES, trials: Sequence[int] = TRIALS, seeds: int = SEEDS) -> pd.DataFrame:
    """The mean at the setting that each search picks: a row a study, method, seed, number of trials and proposals.

    value: that mean; best: the highest of the surrogate; spread: of the recorded trials, their standard deviation.
    """
    return pd.DataFrame([row for name in names for row in _of_study(name, trials, seeds)])


def _of_study(name: str, counts: Sequence[int], seeds: int) -> Iterator[dict]:
    recorded, study = records.load(name), studies.get(name)
    for method in tqdm([each for each in study.methods if each.space], desc=name):
        of_method = recorded.trials[recorded.trials["method"] == method.name]
        tried = of_method.sort_values("trial").to_dict("records")
        if sum(trial["state"] == "complete" for trial in tried) < FEWEST:
            continue
        surrogate = Surrogate(method, tried)
        best = surrogate.best()
        for proposals in PROPOSALS:
            for seed in range(seeds):
                made = play(method, surrogate, surrogate.noise, max(counts), proposals, seed)
                for count in counts:
                    yield {
                        "study": name,
                        "method": method.name,
                        "seed": seed,
                        "trials": count,
                        "proposals": proposals,
                        "value": search.best(made[:count])["mean"],
                        "best": best,
                        "spread": of_method["value"].std(),
                    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, required=True, help="the CSV file that the book reads")
    measure().to_csv(parser.parse_args().write, index=False, float_format="%.5f")


if __name__ == "__main__":
    main()
