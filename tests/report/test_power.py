"""What a study can tell: against simulated studies, the textbook, and the command that prints it."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dmlrc import records
from dmlrc.report import planning, power, statistics
from dmlrc.report.power import ALL, BEST, PAIR, Design

STUDIES = 4000
MONTE_CARLO = 3 * np.sqrt(0.16 / STUDIES)  # how far a share of 80 % strays by chance


def share_told(design, difference, test):
    """In which share of made-up studies the tests of the pages tell it: the first method is above all others."""
    random = np.random.default_rng(1)
    means = np.zeros(design.methods)
    means[0] = difference
    search = design.search * random.normal(size=(STUDIES, design.methods, design.searches))
    seed = design.seed * random.normal(size=(*search.shape, design.reruns))
    values = means[:, None, None] + search[..., None] + seed
    known = replace(statistics.noise(values), pooled=design.pooled)
    scored = *statistics.of_methods(values, known), known.df
    if test == BEST:
        only = [each[..., :2] if np.ndim(each) > 1 else each for each in scored]
        assert design.methods == 2  # another method could tell it in this one's place
        return (~statistics.among_best(*only)[:, 1]).mean()
    difference, _, _, p = statistics.pairwise(*scored)
    comparisons = math.comb(design.methods, 2) if test == ALL else 1
    return ((p[:, 0] * comparisons < 0.05) & (difference[:, 0] > 0)).mean()


@pytest.mark.parametrize(
    ("design", "test"),
    [
        (Design(0.2, 0.1), PAIR),
        (Design(0.2, 0.1), ALL),
        (Design(0.2, 0.1, pooled=True), ALL),
        (Design(0.1, 0.3, methods=5, searches=2, reruns=4), ALL),
        (Design(0.2, 0.1, methods=2, searches=5), BEST),
        (Design(0.2, 0.1, methods=6, searches=10), ALL),
    ],
)
def test_the_least_difference_is_told_in_four_of_five_studies(design, test):
    least = design.least(test)
    assert share_told(design, least, test) == pytest.approx(0.8, abs=MONTE_CARLO)
    assert design.power(least, test) == pytest.approx(0.8)
    assert share_told(design, 0.7 * least, test) == pytest.approx(design.power(0.7 * least, test), abs=MONTE_CARLO)


def test_many_searches_have_the_textbook_number():
    design = Design(1.0, 0.0, methods=2, searches=400, reruns=1)
    assert design.least() == pytest.approx((1.95996 + 0.84162) * math.sqrt(2 / 400), rel=0.01)


@pytest.fixture
def few_draws(monkeypatch):
    """Of 4,000 that simulate a power, and no more than 60 of 1,000 searches, where the way to a number is looked at."""
    monkeypatch.setattr(power, "DRAWS", 100)
    monkeypatch.setattr(power, "MOST", 60)
    power._reach.cache_clear()
    yield
    power._reach.cache_clear()


@pytest.mark.parametrize("test", power.TESTS)
def test_the_searches_for_a_difference_are_the_fewest(test, few_draws):
    design = Design(0.3, 0.1)
    count = design.searches_for(0.5, test)
    assert (
        replace(design, searches=count).power(0.5, test) >= 0.8 > replace(design, searches=count - 1).power(0.5, test)
    )
    assert design.searches_for(100.0, test) == 2
    assert design.searches_for(0.001, test) is None


def test_nothing_repeated_or_compared_tells_nothing():
    assert math.isnan(Design(0.2, 0.1, methods=1).least(ALL))
    assert math.isnan(Design(0.2, 0.1, searches=1).least())
    assert math.isnan(Design(0.0, 0.0).least())


def test_the_gap_of_seeds_follows_from_their_pooled_variance():
    """Three rows of four, four and three reruns, of which one has no interval; oracle: the squares by hand."""
    scores = {"a": [0.50, 0.52, 0.54, 0.52], "b": [0.40, 0.40, 0.44, 0.44], "c": [0.3]}
    long = pd.Series({(name, place): value for name, each in scores.items() for place, value in enumerate(each)})
    rows = statistics.of_groups(long.groupby(level=0))
    around = sum(sum((value - np.mean(scores[name])) ** 2 for value in scores[name]) for name in "ab")
    expected = Design(0.0, math.sqrt(around / 6), methods=3, searches=4, reruns=1).least(ALL)
    assert power.least_of_seeds(rows).tolist() == pytest.approx([expected] * 3)
    assert power.least_of_seeds(rows.loc[["a", "c"]]).isna().all()


def test_single_reruns_have_the_luck_of_a_repetition():
    values = np.array([[[0.1], [0.3]], [[0.4], [0.8]]])  # two methods, two repetitions, one rerun of each
    design = power.of_runs(values, statistics.noise(values))
    assert design == Design(pytest.approx(math.sqrt((0.02 + 0.08) / 2)), 0.0, methods=2, searches=2, reruns=1)


def test_a_normal_test_has_the_textbook_number():
    assert power.least_effect(2.0, 1e6) == pytest.approx(2 * (1.95996 + 0.84162), rel=1e-3)
    assert np.isnan(power.least_effect(0.0, 10))
    assert np.isnan(power.least_effect(1.0, 0))
    quantile = stats.t.ppf(0.975, 8)
    assert stats.nct.sf(quantile, 8, power.least_effect(1.0, 8)) == pytest.approx(0.8)


@pytest.mark.parametrize("end", [0, 1])
def test_the_least_ratio_is_told_in_about_four_of_five_studies(end):
    over, under, spread = 0.0145, 0.0132, 0.303
    true, random = power.least_ratio(over, under, spread)[end], np.random.default_rng(0)
    places, told = np.append(np.linspace(0.2, 0.8, 8), [0, 1]) - 0.5, []
    for _ in range(200):
        groups = [
            (random.normal(1 + width * places, error), np.full(10, error))
            for width, error in ((true * spread, over), (spread, under))
        ]
        found = statistics.parametric_bootstrap(
            groups, lambda one, other: np.ptp(one, axis=-1) / np.ptp(other, axis=-1), 1000
        )
        told.append(found.low > 1 if end else found.high < 1)
    assert np.mean(told) == pytest.approx(0.8, abs=0.12)


def test_where_luck_drowns_every_ratio_none_is_told():
    low, high = power.least_ratio(0.0166, 0.0157, 0.149)
    assert np.isnan(low)
    assert high == pytest.approx(1.64, abs=0.02)
    assert np.isnan(power.least_ratio(1.0, 1.0, 0.1)).all()


class TestCommand:
    @pytest.fixture
    def power_of(self, call):
        return partial(call, "power")

    def test_own_numbers(self, power_of, tmp_path, few_draws):
        picture = tmp_path / "power.svg"
        code, out, err = power_of(
            "--search-sd", "0.3", "--seed-sd", "0.1", "--difference", "0.5", "--methods", "5", "--plot", str(picture)
        )
        assert (code, err) == (0, "")
        rows = {line.split("  ")[0]: line.split()[-3:] for line in out.splitlines()[4:7]}
        expected = {
            test: [str(Design(0.3, 0.1, 5, reruns=count).searches_for(0.5, test)) for count in planning.RERUNS]
            for test in power.TESTS
        }
        assert rows == expected
        assert "all pairs: 10," in out
        assert picture.read_text().startswith("<?xml")
        again = power_of("--search-sd", "1", "--seed-sd", "1", "--difference", "1", "--plot", str(picture))
        assert again[0] == 2
        assert "power.svg is there and not empty, and nothing is overwritten" in again[2]

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["--difference", "0.5"], "name a study with --study, or give both"),
            (["--difference", "0.5", "--search-sd", "1"], "name a study with --study, or give both"),
            (["--difference", "0.5", "--study", "glyphs-smoke", "--seed-sd", "1"], "name a study with --study"),
            (["--difference", "0.5", "--study", "nothing"], "unknown study 'nothing'"),
            (["--difference", "0", "--search-sd", "1", "--seed-sd", "1"], "--difference 0 is no distance"),
            (["--difference", "nan", "--search-sd", "1", "--seed-sd", "1"], "--difference nan is no distance"),
            (["--difference", "1", "--search-sd", "-1", "--seed-sd", "1"], "--search-sd -1 is no standard deviation"),
            (["--difference", "1", "--search-sd", "1", "--seed-sd", "inf"], "--seed-sd inf is no standard deviation"),
            (["--difference", "1", "--search-sd", "1e300", "--seed-sd", "1"], "up to 1e9"),
            (["--difference", "1", "--search-sd", "0", "--seed-sd", "0"], "are both 0"),
            (
                ["--difference", "1", "--search-sd", "1", "--seed-sd", "1", "--plot", "power.doc"],
                "no picture has such a name",
            ),
        ],
    )
    def test_a_mistake_is_one_sentence(self, power_of, few_draws, arguments, sentence):
        code, _, err = power_of(*arguments)
        assert code == 2
        assert err.startswith("dmlrc: ")
        assert sentence in err
        assert err.count("\n") == 1

    def test_a_study_and_its_hours(self, power_of, monkeypatch):
        monkeypatch.setenv("DMLRC_HOME", str(records.__file__).partition("/dmlrc/records")[0])
        code, out, err = power_of("--study", "cars196crops-frozen", "--difference", "0.5")
        assert (code, err) == (0, "")
        design, (search, rerun) = planning.design_of_study("cars196crops-frozen")
        assert (design.methods, design.searches, design.reruns) == (14, 3, 3)
        count = design.searches_for(0.5, ALL)
        assert f"{count} ({count * (search + 3 * rerun):.0f} h)" in out
        assert "all pairs: 91," in out

    def test_a_study_that_searched_once(self, power_of, monkeypatch):
        monkeypatch.setenv("DMLRC_HOME", str(records.__file__).partition("/dmlrc/records")[0])
        code, _, err = power_of("--study", "cars196crops-depths/squeezenet-last-block", "--difference", "0.5")
        assert code == 2
        assert "has no test scores of repeated searches" in err
