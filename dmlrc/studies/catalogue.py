"""Every study by name, and the experiments around them; a reader's own ones too."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dmlrc import names, paths
from dmlrc.errors import UsageError, unknown
from dmlrc.methods import LEARNING_RATE, Float, Level, Method, levels, rows
from dmlrc.papers import after2019, fehervari2019, musgrave2020, oi2021, roth2020, zhai2019
from dmlrc.protocol import EXPERIMENT, FIXED, FULL, QUICK, SMOKE, TABLE, TEST_METRICS, Budget, Protocol, Study
from dmlrc.studies import adapted, early, gpu_hours, own, tuned

_COSTLY = (
    *("contrastive", "triplet", "ntxent", "margin"),
    *("normalized_softmax", "arcface", "multi_similarity", "soft_triple"),
)
"""The methods of the studies that cost most, and of the grids of learning rates."""
_EIGHT_METHODS = tuple(method for method in musgrave2020.METHODS if method.name in _COSTLY)


def _musgrave(dataset: str) -> Study:
    protocol = replace(musgrave2020.PROTOCOL, **musgrave2020.VALIDATION.get(dataset, {}))
    methods = musgrave2020.SOP_METHODS if dataset == "sop" else musgrave2020.METHODS
    return Study(
        f"{dataset}-musgrave2020", dataset, protocol, FULL, methods, expected="hundreds of GPU hours, not measured"
    )


def _fixed(dataset: str, protocol: Protocol, methods: tuple[Method, ...], suffix: str = "", **changes) -> Study:
    """A study of a paper that fixes all settings: reruns without a search."""
    experiment = f"{protocol.paper}{suffix}"
    return Study(
        f"{dataset}-{experiment}",
        dataset,
        protocol,
        FIXED,
        methods,
        # the Reality Check has no table of In-Shop, so what stands around it stands around that of Zhai and Wu
        kind=TABLE if dataset == "inshop" else EXPERIMENT,
        parent=None if dataset == "inshop" else f"{dataset}-musgrave2020",
        experiment=experiment,
        expected=gpu_hours.calculated(dataset, protocol, methods, FIXED.reruns),
        **changes,
    )


_OF_THE_PAPERS = (
    *map(_musgrave, ("cub200", "cars196", "sop")),
    _fixed("cub200", roth2020.PROTOCOL, roth2020.METHODS),
    _fixed("cars196", roth2020.PROTOCOL, roth2020.CARS196_METHODS),
    _fixed("sop", roth2020.SOP_PROTOCOL, roth2020.SOP_METHODS),
    _fixed("cub200", zhai2019.CUB200_PROTOCOL, zhai2019.METHODS),
    _fixed("cars196", zhai2019.PROTOCOL, zhai2019.METHODS),
    _fixed("sop", zhai2019.SOP_PROTOCOL, zhai2019.FEW_IMAGES_METHODS),
    _fixed("inshop", zhai2019.INSHOP_PROTOCOL, zhai2019.FEW_IMAGES_METHODS),
    _fixed("cub200", fehervari2019.PROTOCOL, fehervari2019.METHODS),
    _fixed("cub200", fehervari2019.RESNET50, fehervari2019.RESNET50_METHODS, "/resnet50"),
    _fixed("cars196", fehervari2019.PROTOCOL, fehervari2019.METHODS),
    _fixed("sop", replace(fehervari2019.PROTOCOL, split="official"), fehervari2019.SOP_METHODS),
    *(
        _fixed(dataset, oi2021.PROTOCOL, oi2021.METHODS, suffix, class_order=order, seed=oi2021.SEED)
        for dataset in ("cub200", "cars196")
        for order, suffix in (("default", ""), ("random", "/random"))
    ),
)


def _methods_table(name: str, dataset: str, protocol: Protocol, budget: Budget, expected: str) -> Study:
    """The Reality Check's table on data and a trunk that a reader has."""
    return Study(name, dataset, protocol, budget, musgrave2020.METHODS, expected=expected)


_REPEATED = Budget("full", trials=50, reruns=3)  # three times, each a search of its own
_FROZEN = tuple(
    replace(_methods_table(name, dataset, protocol, _REPEATED, f"{hours} hours, 2 cores"), repetitions=3)
    for name, dataset, protocol, hours in (
        ("cub200-2010-frozen", "cub200_2010", replace(musgrave2020.FROZEN, **musgrave2020.ON_LITE0, lr=3e-6), "7"),
        ("cars196crops-frozen", "cars196crops", musgrave2020.FROZEN, "5 to 10"),
        ("grocery-frozen", "grocery", replace(musgrave2020.FROZEN, lr=3e-5), "3"),
    )
)
"""The methods tables on fixed features, each method searched three times; their rates are what the grids chose."""

_GROCERY_QUICK = _methods_table(
    "grocery-quick",
    "grocery-lite0",
    replace(musgrave2020.FROZEN, **musgrave2020.ON_LITE0, **musgrave2020.QUICK_OVERRIDES),
    Budget("quick", trials=10, reruns=3, max_epochs=4, iterations_per_epoch=25),
    "2 minutes, 2 cores",
)
"""A methods table on real photographs, trained in a minute or two: on features that the package holds.

The whole search of 14 methods, but short: 10 trials, and 3 reruns of the best. A run takes 100 steps and keeps the
best of its four checkpoints; twice as many gain about a point of validation MAP@R, at the same best rate. There are
14 x 13 x 4 runs, and a step costs a good millisecond.
"""

_DEPTHS = tuple(
    Study(name, dataset, protocol, Budget("full", trials=25, reruns=5), _EIGHT_METHODS, expected=f"{hours}, 2 cores")
    for name, dataset, protocol, hours in (
        ("cars196crops-depths/squeezenet-last-block", "cars196crops", musgrave2020.LAST_BLOCK, "4 to 7 hours"),
        (
            "cars196crops-depths/squeezenet-embedder-alone",
            "cars196crops",
            replace(musgrave2020.EMBEDDER_ALONE, lr=1e-4),
            "20 minutes",
        ),
        (
            "cub200-2010-depths/squeezenet-last-block",
            "cub200_2010",
            replace(musgrave2020.LAST_BLOCK, lr=1e-5),
            "4 to 7 hours",
        ),
        ("cub200-2010-depths/squeezenet-embedder-alone", "cub200_2010", musgrave2020.EMBEDDER_ALONE, "20 minutes"),
        ("omniglot-scratch", "omniglot", musgrave2020.SCRATCH, "4 to 7 hours"),
    )
)
"""Depths to which the network trains: the last block or the embedder alone, on the same images; everything.

Methods tables, but of one question, which has its own chapter. Their rates are what the grids chose.
"""
DEPTHS = tuple(study.name for study in _DEPTHS)
"""The studies of depths of training."""


def _mobilenet(dataset: str, depth: str, epochs: int, lr: float) -> Study:
    """MobileNetV2 trained to one of four depths, on the same images: settings and rates are fixed, no search is run.

    Whole networks of 2,000 steps are for a GPU, and in TF32, for speed. The grid that chose the rate of those on Cars
    crops was faulty (see the preregistration): it is to be run again before them.
    """
    protocol = replace(
        musgrave2020.MOBILENETV2,
        name=f"musgrave2020-mobilenetv2-{depth}",
        lr=lr,
        max_epochs=epochs,
        eval_every=epochs // 5,
        precision="tf32" if (depth, epochs) == ("whole", 20) else "float32",
        **musgrave2020.DEPTHS[depth],
    )
    methods = tuple(
        replace(after2019.KNOWN[name], space={}, settings=settings)
        for name, settings in tuned.OF_DEPTHS[dataset].items()
    )
    expected = {"embedder": "10 minutes, 1 core", "last-block": "6 hours, 1 core", "half": "6 hours, 1 core"}
    return Study(
        f"{dataset.replace('_', '-')}-depths/mobilenetv2-{depth}{'-2000' if epochs == 20 else ''}",
        dataset,
        protocol,
        Budget("full", trials=0, reruns=3),
        methods,
        expected=expected.get(depth, "hours, 1 GPU"),
    )


_MOBILENETS = tuple(_mobilenet(**which) for which in tuned.DEPTH_RATES)
MOBILENETS = tuple(study.name for study in _MOBILENETS)
"""The studies of depths of training on one trunk, whose settings were found elsewhere."""

_ICONS = Study(
    "icons-scratch",
    "icons",
    replace(
        musgrave2020.SCRATCH,
        image_size=32,
        crop_size=32,
        lr=3e-4,
        augmentation="none",
        test_metrics=(*TEST_METRICS, "nmi"),
    ),
    Budget("full", trials=12, reruns=3),
    _EIGHT_METHODS,
    expected="11 hours, 1 core",
    repetitions=3,
)
"""Many classes of few images, the shape of SOP: conv4 from scratch on 1,004 icons, searched three times.

Not augmented, and 2,000 steps a run, so that training can lift the scores: in a pilot on one validation fold MAP@R of
contrastive rose from 52.7 % to 66.6; to 61.3 with affine maps, and to 59.0 in 600 steps, where N. Softmax fell to 34.7.
361 units of four folds at 14 ms a step are 11 hours. The rate is what its grid chose.
"""
ICONS = _ICONS.name
"""The study of many classes."""

_ALL = (
    _methods_table("glyphs-smoke", "glyphs-small", musgrave2020.CHARACTERS, SMOKE, "1 minute, 2 cores"),
    _GROCERY_QUICK,
    _methods_table("glyphs-quick", "glyphs", musgrave2020.CHARACTERS, QUICK, "10 minutes, 2 cores"),
    _methods_table("glyphs-full", "glyphs", musgrave2020.CHARACTERS, FULL, "some GPU hours, not measured"),
    _methods_table("omniglot-full", "omniglot", musgrave2020.CHARACTERS, FULL, "some GPU hours, not measured"),
    _methods_table("first-runs/grocery-frozen", "grocery", musgrave2020.FROZEN_RATE1E4, FULL, "1 hour, 2 cores"),
    _methods_table(
        "first-runs/cars196crops-frozen", "cars196crops", musgrave2020.FROZEN_RATE1E4, FULL, "4 hours, 2 cores"
    ),
    *_FROZEN,
    *_DEPTHS,
    *_MOBILENETS,
    _ICONS,
    *_OF_THE_PAPERS,
)
_TABLES = {study.name: study for study in _ALL if study.protocol.paper == "musgrave2020"}

TOO_HIGH_A_RATE = {
    "cub200-2010-frozen": "cub200-2010-frozen/rate-tenfold",
    "cars196crops-frozen": "first-runs/cars196crops-frozen",
    "grocery-frozen": "first-runs/grocery-frozen",
}
"""The same methods table at a rate too high for it: for two of them that is the first run, at 1e-4."""


def _rate_study(study: Study, rate: float) -> Study:
    """The short search that judges one learning rate: a few methods, random settings, validation folds only."""
    return study.rates(
        f"rate-{rate:.0e}",
        map(study.method, ("contrastive", "triplet", "normalized_softmax", "multi_similarity")),
        trials=4,
        protocol=replace(study.protocol, lr=rate, patience=9, max_epochs=50),
        expected="4 minutes, 2 cores",
    )


def _searched_rate(study: Study) -> Study:
    """The table with the rate searched for each of eight methods, once, in 50 trials: the first attempt."""
    methods = _with_rate(study, Float(1e-6, 1e-3, log=True))
    return study.around("rate-searched", methods, expected="2 hours, 2 cores", repetitions=1)


def _searched_rates(study: Study) -> Study:
    """The same methods table with the rate searched for each of eight methods: 100 trials, three times.

    From a tenth to a hundred times the shared rate, at which the first trial is: the grids of rates, which reach from a
    tenth or a third of it to a hundred times, have most losses' best within.
    """
    shared = study.protocol.lr
    lowest, highest = (float(f"{factor * shared:.3g}") for factor in (0.1, 100))
    methods = _with_rate(study, Float(lowest, highest, log=True, first=shared))
    budget = replace(study.budget, trials=100)
    return study.around("rates-searched", methods, budget=budget, expected="7 to 22 hours, 1 core")


def _with_rate(study: Study, rate: Float) -> Iterator[Method]:
    return (replace(method, space={**method.space, LEARNING_RATE: rate}) for method in map(study.method, _COSTLY))


def _log_scales(study: Study) -> Study:
    """CosFace and ProxyNCA with their scales searched in logarithms: the best lie low in the linear ranges."""
    scales = {
        "proxy_nca": {"softmax_scale": Float(0.01, 100.0, log=True)},
        "cosface": {"scale": Float(0.01, 200.0, log=True)},
    }
    methods = (
        replace(study.method(name), space={**study.method(name).space, **searched}) for name, searched in scales.items()
    )
    return study.around("log-scales", methods, expected="1 to 3 hours, 1 core")


def _tenfold_rate(study: Study) -> Study:
    """The methods of the grid at ten times the study's rate, once: the second hypothesis of the preregistration."""
    protocol = replace(study.protocol, lr=10 * study.protocol.lr)
    methods = map(study.method, _COSTLY)
    return study.around("rate-tenfold", methods, protocol=protocol, repetitions=1, expected="2 hours, 2 cores")


def _swept(study: Study, name: str, sweep: Sequence[Level]) -> Study:
    methods = rows(sweep)
    return replace(
        study.around(name, methods),
        parent=study.parent or study.name,
        experiment=f"{study.experiment}/{name}",
        expected=gpu_hours.calculated(study.dataset, study.protocol, methods, study.budget.reruns),
    )


def _sweeps(study: Study) -> dict[str, Sequence[Level]]:
    if study.experiment == "roth2020":
        return roth2020.roth_sweeps(study.methods)
    if study.experiment == "zhai2019":
        return zhai2019.zhai_sweeps(study.dataset, study.methods)
    if study.experiment == "fehervari2019":
        return fehervari2019.fehervari_sweeps(tuple(method for method in study.methods if method.name != "dreml"))
    return {}


def _rate_grid(study: Study, rates: Sequence[float], judged: Iterable[Method] = ()) -> Study:
    """Grid of shared learning rates for eight methods, each at one setting that an earlier search found.

    Scored on the validation folds alone; it chooses the study's rate. judged: other methods, at settings of their own.
    """
    # every row has its own rate: that of the study itself must not change with the choice
    shared = replace(study, protocol=replace(study.protocol, lr=rates[-1]))
    tried = levels("rate", rates, tuple(judged) or _tuned(study), "lr")
    return shared.rates("rates", rows(tried), expected="1 hour, 2 cores")


def _embedder_rate_grid(study: Study, rates: Sequence[float]) -> Study:
    """Grid of rates for the embedder alone, beside a trunk that keeps the study's.

    As `_rate_grid`, which has the rate that both share. It chooses nothing: it shows what sharing costs.
    """
    tried = levels("embedder", rates, _tuned(study), "new_lr")
    return study.rates("embedder-rates", rows(tried), expected="1 hour, 2 cores")


def _tuned(study: Study) -> tuple[Method, ...]:
    """The eight methods of a grid, each at a setting that an earlier search found."""
    settings = tuned.grid_settings(study.dataset)
    return tuple(replace(study.method(name), space={}, settings=settings[name]) for name in _COSTLY)


def _depth_grid(study: Study) -> Study:
    """Grid of rates as in `_rate_grid`, of three methods at the settings that the study itself has."""
    rates = (3e-4, 3e-6, 1e-4, 1e-5, 3e-5) if study.protocol.train_from else (3e-7, 3e-5, 1e-6, 3e-6, 1e-5)
    if study.protocol.frozen_trunk:
        rates = (1e-3, 1e-5, 3e-4, 3e-5, 1e-4)
    return _rate_grid(study, rates, map(study.method, ("contrastive", "normalized_softmax", "multi_similarity")))


# of each the rates are run from the last to the first
_GRIDS = (
    *(_rate_grid(study, (1e-6, 3e-4, 3e-6, 1e-4, 3e-5, 1e-5)) for study in _FROZEN),
    *(_rate_grid(study, (3e-4, 3e-6, 1e-4, 1e-5, 3e-5)) for study in _DEPTHS if study.dataset != "omniglot"),
    _rate_grid(_TABLES["omniglot-scratch"], (1e-2, 3e-5, 3e-3, 1e-4, 1e-3, 3e-4)),
    # a third, three times and ten times what trunk and embedder share
    _embedder_rate_grid(_TABLES["cars196crops-depths/squeezenet-last-block"], (3e-4, 1e-5, 1e-4)),
    _embedder_rate_grid(_TABLES["cub200-2010-depths/squeezenet-last-block"], (1e-4, 3e-6, 3e-5)),
    *map(_depth_grid, _MOBILENETS),
    _rate_grid(_ICONS, (1e-2, 1e-4, 3e-3, 3e-4, 1e-3)),
    replace(_rate_grid(_GROCERY_QUICK, (1e-4, 1e-6, 3e-6, 3e-5, 1e-5)), expected="1 minute, 2 cores"),
)


def _around(study: Study) -> Iterator[Study]:
    """The other papers' experiments on the data and trunk of a methods table, where that is not a paper's own."""
    adaptable = study.protocol.name in (musgrave2020.CHARACTERS.name, musgrave2020.FROZEN.name)
    return adapted.experiments(study) if adaptable else iter(())


STUDIES = {
    study.name: study
    for study in (
        *_ALL,
        *(_rate_study(_TABLES["first-runs/grocery-frozen"], rate) for rate in (1e-4, 3e-4, 1e-3)),
        *(_rate_study(_TABLES["glyphs-quick"], rate) for rate in (3e-5, 1e-4, 3e-4, 1e-3)),
        *_GRIDS,
        _searched_rate(_TABLES["cars196crops-frozen"]),
        *(make(study) for make in (_searched_rates, _log_scales, early.early_winners) for study in _FROZEN),
        _tenfold_rate(_TABLES["cub200-2010-frozen"]),
        *(_swept(study, name, sweep) for study in _ALL for name, sweep in _sweeps(study).items()),
        *(experiment for study in _ALL for experiment in _around(study)),
    )
}
"""The studies of this package."""
_TAKEN = {*STUDIES, *names.former(), *(name.removesuffix("-musgrave2020") for name in STUDIES)}


def own_studies() -> dict[str, Study]:
    """The reader's own studies, of `studies.toml`; see `dmlrc.studies.own`."""
    return own.read_studies(paths.home() / "studies.toml", _TABLES, _TAKEN)


def check_new_name(name: str) -> None:
    """Raise UsageError for what another study of the reader's own cannot be called."""
    own.check_name(name, _TAKEN | own_studies().keys())


def changed(like: str, settings: Mapping[str, Any], name: str) -> tuple[Study, str]:
    """The study of this name, which is as another one but for these settings, and what studies.toml lacks of it.

    The other one may be a table of this package or a reader's own.
    Raises UsageError as `own.read_studies` does, and where there is another study of this name.
    """
    mine = own_studies()  # first: it refuses a file that holds anything else
    base = own.study_entries(paths.home() / "studies.toml").get(like, {"like": names.current(like)})
    if name not in mine:
        check_new_name(name)
    study = own.as_study(name, {**base, **settings}, _TABLES, _TAKEN)
    if mine.get(name, study) != study:
        raise UsageError(f"study {name!r} in studies.toml has other settings: change it there, or take another name")
    return study, "" if name in mine else own.entry(name, {**base, **settings})


def enter_changed(like: str, settings: Iterable[str], name: str) -> Study:
    """The study that is as another one but for these settings, "lr=1e-4"; it stands in studies.toml from now on.

    Raises DmlrcError as `changed` does, where the data has room for none of its methods, or its trunk cannot be made.
    """
    from dmlrc import preflight  # which loads torch

    chosen, entry = changed(like, own.settings(settings), name)
    if entry:
        preflight.too_small(chosen, chosen.methods)  # before anything is written
        preflight.check_trunk(chosen)
        own.enter(entry)
    return chosen


def known() -> dict[str, Study]:
    """All studies: those of this package, the reader's own, and the experiments around them.

    Returns
    -------
    name -> Study

    Raises
    ------
    DmlrcError
        For a studies.toml that cannot be read, or holds what no study has.
    """
    mine, around = own_studies(), {}
    for study in mine.values():
        for experiment in _around(study):
            own = experiment.name.removeprefix(study.name)
            name = study.name + names.folded(own).replace("-order-", "-order")  # one word, as from the first
            around[name] = replace(experiment, name=name)
    return STUDIES | mine | around


def get(name: str) -> Study:
    """Find the study of this name.

    Parameters
    ----------
    name : of `dmlrc study list`; of a former name it is today's study, which a sentence on standard error says

    Returns
    -------
    Study

    Raises
    ------
    UsageError
        For an unknown name.
    """
    studies = known()
    name = name if name in studies else names.current(name)
    if name not in studies and paths.recorded(str(name)):
        raise UsageError(f"study {name!r} is known by its records alone: run it where it was made, such as in Python")
    if name not in studies:
        raise unknown("study", name, studies, "`dmlrc study list WORD` finds those with a word in their names")
    return studies[name]
