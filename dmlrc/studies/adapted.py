"""The other papers' experiments on the data, images and trunk of a main study.

A paper's own protocol asks for its data sets, ImageNet trunks and GPU days. Here each of its experiments is run around
a methods table that exists: same data, same input, same trunk as that study, everything else as the paper has it, as
far as the trunk allows. What differs stands in the deviation ledger of the paper's chapter.

Batches are smaller than the papers', since half of Grocery Store has 40 classes: 64 (Roth et al.: 112), 60 (Fehervari
et al.: 120).

Rates: around each of the tables of `GRIDS_OF` the best of a wide grid on its validation folds, `<main>/<paper>/rates`;
around a reader's own table of that kind one between those that the grids chose. Elsewhere the best of three, from
results/first-runs/grocery-frozen/*/rates for frozen trunks and results/glyphs-quick/*/rates for trained ones, so those
are rates for short runs; that of Zhai and Wu is the lowest of its three.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from dmlrc import data
from dmlrc.data.available import FEATURES
from dmlrc.methods import LOSS_WEIGHTS_LR, Level, Method, batch_levels, fixed_method, in_batches_of, levels, rows
from dmlrc.papers import after2019, fehervari2019, musgrave2020, oi2021, roth2020, zhai2019
from dmlrc.protocol import CLASS_ORDERS, TEST_METRICS, Budget, Protocol, Study, TrunkInput
from dmlrc.studies import tuned

# What is other than in the papers' protocols: a linear layer, or four convolutions, want fewer steps at higher rates.
_FROZEN = {
    "roth2020": {"lr": 1e-3, "iterations_per_epoch": 50, "max_epochs": 10, "patience": 10},
    "fehervari2019": {"lr": 1e-3, "iterations_per_epoch": 50, "max_epochs": 10, "patience": 10},
    "zhai2019": {"lr": 0.01, "warmup_epochs": 0},
    "oi2021": {"lr": 1e-2},
}
_CHARACTERS = {
    "roth2020": {"lr": 1e-3, "iterations_per_epoch": 100, "max_epochs": 30, "patience": 30},
    "fehervari2019": {"lr": 1e-3, "iterations_per_epoch": 100, "max_epochs": 30, "patience": 30},
    "zhai2019": {"lr": 0.001, "warmup_epochs": 0},
    "oi2021": {"lr": 1e-3},
}
_SEEDS = {"full": (5, 3), "quick": (2, 1), "smoke": (1, 1)}  # reruns of a table, of a sweep
_CAPS = {"quick": {"max_epochs": 3, "iterations_per_epoch": 10}, "smoke": {"max_epochs": 1, "iterations_per_epoch": 2}}
_FROZEN_CAPS = _CAPS | {"quick": {"max_epochs": 4, "iterations_per_epoch": 25}}  # a tenth of the time a step
_EXPECTED = {"full": "10 to 30 minutes, 2 cores", "quick": "1 minute, 2 cores", "smoke": "10 seconds, 2 cores"}

_FROZEN_RATES = {"adam": (1e-4, 1e-3, 1e-2), "sgd": (0.01, 0.1, 1.0), "adamw": (1e-4, 1e-3, 1e-2)}
_CHARACTERS_RATES = _FROZEN_RATES | {"sgd": (0.001, 0.01, 0.1)}
_RATE_METHODS = {
    "roth2020": ("margin_12", "triplet_random", "multi_similarity", "softmax"),
    "fehervari2019": ("n_pairs", "margin", "triplet_semihard", "proxy_nca"),
    "zhai2019": ("norm_softmax", "lmcl"),
    "oi2021": ("normalized_softmax",),
}
WHOLE_IMAGES = "227px"
"""The level of images that are not made smaller, by the pixels that most trunks here see; pages print a study's own."""
RATES_OF = ("first-runs/grocery-frozen", "glyphs-quick")
"""The studies on whose validation classes the rates of most were chosen: of frozen trunks, and of trained ones."""
GRIDS_OF = ("cub200-2010-frozen", "cars196crops-frozen", "grocery-frozen")
"""The studies around which each paper's rate is chosen on their own validation classes; first the grid, then these."""
FIRST_RUNS = ("first-runs/grocery-frozen", "first-runs/cars196crops-frozen")
"""Tables that are run again at another learning rate; around them all rates are those of short runs, class weights and
proxies begin longer than in the papers' code, and those of Roth et al.'s Softmax hardly move."""
_GRID_RATES = {  # run from the last to the first; the second stands in the protocol of the records
    "adam": (1e-3, 3e-6, 3e-3, 3e-4, 1e-5, 1e-4, 3e-5),
    "sgd": (3e-2, 1e-4, 1e-1, 1e-2, 3e-4, 3e-3, 1e-3),
    "adamw": (1e-2, 1e-5, 1.0, 3e-1, 1e-1, 3e-2, 3e-3, 3e-5, 1e-3, 1e-4, 3e-4),
}
_GRID_METHODS = {
    "roth2020": ("contrastive", "margin_12", "multi_similarity", "n_pairs", "softmax", "triplet_random"),
    "fehervari2019": ("lifted_structure", "margin", "n_pairs", "proxy_nca", "proxy_softmax", "triplet_semihard"),
    "zhai2019": ("norm_softmax", "lmcl", "contrastive", "histogram", "margin", "proxy_nca"),
    "oi2021": ("normalized_softmax",),
}


def experiments(main: Study) -> Iterator[Study]:
    """Every experiment around a main study, named `<main>/<experiment>`.

    On a data set of features those rows are left out that want another trunk or input, and experiments that then vary
    nothing any more.
    """
    for study in _experiments(main):
        if main.name in FIRST_RUNS:
            first = (_as_first_run(method, study.protocol.paper) for method in study.methods)
            study = replace(study, methods=tuple(first))
        fixed = TrunkInput._fields if main.dataset in FEATURES else ()
        rows = tuple(method for method in study.methods if method.changes.keys().isdisjoint(fixed))
        if rows == study.methods or len({method.level for method in rows}) > 1:
            yield replace(study, methods=rows)


_FIRST_RATES = {("roth2020", "softmax"): {LOSS_WEIGHTS_LR: 1e-5}, ("fehervari2019", "margin"): {LOSS_WEIGHTS_LR: 0.1}}


def _as_first_run(method: Method, paper: str) -> Method:
    """Give class weights, proxies and boundaries the start and rate of the first runs, not those of papers' code."""
    later = {name: method.settings.get(name) for name in ("weight_length", "proxy_std")} | fehervari2019.PROXY_RATE
    settings = {name: value for name, value in method.settings.items() if later.get(name) != value}
    changes = {name: value for name, value in method.changes.items() if name != "loss_weight_decay"}
    return replace(
        method, settings=settings | _FIRST_RATES.get((paper, method.row or method.name), {}), changes=changes
    )


def _experiments(main: Study) -> Iterator[Study]:
    untrained = replace(_adapted(main, musgrave2020.PROTOCOL), **_UNTRAINED)
    yield _study(main, "trunks", untrained, _trunks(main), sweep=True)
    if main.protocol.frozen_trunk:
        random_layers = levels("dim", zhai2019.EMBEDDING_DIMS, (_untrained(main.protocol.trunk),), "embedding_dim")
        yield _study(main, "projections", untrained, rows(random_layers), sweep=True)
    yield from _roth(main)
    yield from _fehervari(main)
    yield from _zhai(main)
    yield from _oi(main)
    yield main.around("after2019", after2019.METHODS)
    if main.name == "cars196crops-frozen":
        yield _zeng(main)
    papers = (
        (_adapted(main, roth2020.PROTOCOL), _roth_methods(main)),
        (_adapted(main, fehervari2019.PROTOCOL), _fehervari_methods()),
        (_zhai_protocol(main), zhai2019.METHODS),
        (_adapted(main, oi2021.PROTOCOL), oi2021.METHODS),
    )
    for protocol, methods in papers:
        if main.name in RATES_OF:
            yield _rates(main, protocol, methods)
        if main.name in GRIDS_OF:
            yield _rate_grid(main, protocol, methods)


def _study(
    main: Study, name: str, protocol: Protocol, methods: tuple[Method, ...], sweep: bool = False, **own
) -> Study:
    budget = main.budget.base
    return main.around(
        name,
        methods,
        dataset=_dataset(main),
        protocol=protocol,
        budget=Budget(budget, trials=0, reruns=_SEEDS[budget][sweep], **_caps(main)),
        repetitions=1,
        expected=_EXPECTED[budget],
        **own,
    )


def _caps(main: Study) -> dict[str, int]:
    """Caps on the epochs, and steps in each, of an experiment around this table; none at a full budget."""
    return (_FROZEN_CAPS if main.protocol.frozen_trunk else _CAPS).get(main.budget.base, {})


def _dataset(main: Study) -> str:
    # on all glyphs the tests alone would take minutes
    return "glyphs-small" if (main.dataset, main.budget.base) == ("glyphs", "quick") else main.dataset


def _adapted(main: Study, paper: Protocol, **own) -> Protocol:
    """A paper's protocol with the input and the trunk of the main study."""
    kind = "frozen" if main.protocol.frozen_trunk else "characters"
    settings = (_FROZEN if main.protocol.frozen_trunk else _CHARACTERS).get(paper.paper, {})
    long = main.protocol.frozen_trunk and main.budget.base == "full" and main.name not in FIRST_RUNS
    rates = tuned.RATES.get(main.name, tuned.BETWEEN_THEM if long else {})
    rate = {"lr": rates[paper.paper]} if paper.paper in rates else {}
    inputs = {name: getattr(main.protocol, name) for name in TrunkInput._fields}
    return replace(paper, name=f"{paper.name}-{kind}", **settings | rate | inputs | own)


_SWEPT = ("margin_12", "multi_similarity", "softmax", "n_pairs", "margin", "proxy_softmax")


def _few(main: Study, methods: tuple[Method, ...]) -> tuple[Method, ...]:
    """The methods of a sweep; of a small budget three."""
    return methods if main.budget.base == "full" else tuple(method for method in methods if method.name in _SWEPT)


def _classes(main: Study) -> int:
    """The classes that train; a folder of images is taken to have as many as Grocery Store, the fewest."""
    dataset = _dataset(main)
    return data.extent("grocery" if dataset.startswith("folder:") else dataset)[1] // 2


# No training at all: what trunks are worth before it. Tables 1 and 2 of Musgrave et al., Table 1 of Roth et al.
_UNTRAINED = {"folds": 0, "max_epochs": 0, "embedding_dim": None, "test_metrics": ("precision_at_1", "nmi")}


def _trunks(main: Study) -> tuple[Method, ...]:
    trained = main.protocol.trunk
    as_images = {"frozen_trunk": False, "weights": None, "augmentation": "none"}  # new random weights for each seed
    if main.protocol.weights:
        as_images |= {"image_size": 64, "crop_size": 64}
        random = ("conv4", "squeezenet1_0", "resnet18")
        projected = {"embedding_dim": 128}
        pretrained = [Level("imagenet", (_untrained(trained),)), Level("projection", (_untrained(trained),), projected)]
    else:
        random, pretrained = ("conv4", "resnet18"), []
    drawn = tuple(replace(_untrained(trunk), changes={"trunk": trunk}) for trunk in random)
    return rows([*pretrained, Level("random", drawn, as_images)])


def _untrained(trunk: str) -> Method:
    return Method(trunk, "contrastive", settings={"pos_margin": 0, "neg_margin": 1})


def _roth_methods(main: Study) -> tuple[Method, ...]:
    methods = roth2020.CARS196_METHODS if main.dataset.startswith("cars196") else roth2020.METHODS
    return in_batches_of(64, methods)


def _roth(main: Study) -> Iterator[Study]:
    protocol, methods = _adapted(main, roth2020.PROTOCOL), _roth_methods(main)
    six, sizes = _few(main, roth2020.sampled(methods)), (8, 16, 32, 64)
    if main.protocol.frozen_trunk:
        smaller = {"image_size": 64, "crop_size": 64}
        pixels = [
            Level(WHOLE_IMAGES, six, {}, 227.0),
            Level("113px", six, {"image_size": 128, "crop_size": 113}, 113.0),
            Level("56px", six, {"image_size": 64, "crop_size": 56}, 56.0),
        ]
        trunks = {main.protocol.trunk: {}} | {
            f"{trunk}-random": {"trunk": trunk, "weights": None, **smaller} for trunk in ("resnet18", "conv4")
        }
    else:
        pixels = [Level("affine", six), Level("none", six, {"augmentation": "none"})]
        trunks = {main.protocol.trunk: {}, f"{main.protocol.trunk}-frozen": {"frozen_trunk": True}}
    sweeps = roth2020.roth_sweeps(six, (32, 64, 128, 256, 512, 1024), sizes)
    sweeps |= {"trunks": [Level(name, six, changes) for name, changes in trunks.items()], "preprocessing": pixels}
    yield _study(main, "roth2020", protocol, methods)
    for name, sweep in sweeps.items():
        # spectra are only shown of the table's runs
        yield _study(main, f"roth2020/{name}", replace(protocol, arrays=()), rows(sweep), sweep=True)
    equal = _same_images(main, protocol, sizes, six, 64)
    yield _study(main, "roth2020/batches-equal", replace(protocol, arrays=()), rows(equal), sweep=True)


def _same_images(
    main: Study, protocol: Protocol, sizes: Sequence[int], methods: tuple[Method, ...], size: int
) -> list[Level]:
    """A sweep over the images of a batch in which an epoch has as many images at every size as in batches of `size`.

    So it is in the papers, whose epochs are passes over the data; with the steps fixed, larger batches see more images.
    Where a layout does not fill the batch it sees up to 6 % less, ranked list in batches of 8 a quarter less.
    """
    steps = _caps(main).get("iterations_per_epoch", protocol.iterations_per_epoch)
    return [
        replace(level, changes={"iterations_per_epoch": round(steps * size / level.number)})
        for level in batch_levels(sizes, methods)
    ]


def _fehervari_methods() -> tuple[Method, ...]:
    return tuple(replace(method, classes_per_batch=method.classes_per_batch // 2) for method in fehervari2019.METHODS)


def _fehervari(main: Study) -> Iterator[Study]:
    protocol = _adapted(main, fehervari2019.PROTOCOL)
    methods = _fehervari_methods()
    yield _study(main, "fehervari2019", protocol, methods)
    few = _few(main, methods[:-1])  # all but the ensemble
    for name, sweep in fehervari2019.fehervari_sweeps(few).items():
        yield _study(main, f"fehervari2019/{name}", protocol, rows(sweep), sweep=True)
    equal = _same_images(main, protocol, fehervari2019.BATCH_SIZES, few, 60)
    yield _study(main, "fehervari2019/batches-equal", protocol, rows(equal), sweep=True)


def _zhai_protocol(main: Study) -> Protocol:
    # 2048 dimensions are a linear layer here: the features of our trunks are smaller
    return _adapted(main, zhai2019.PROTOCOL, embedding_dim=2048)


def _zhai(main: Study) -> Iterator[Study]:
    protocol, softmax = _zhai_protocol(main), zhai2019.METHODS[:1]
    fitting = [layout for layout in zhai2019.SAMPLES_PER_CLASS if layout is None or layout[1] <= _classes(main)]
    samples = map(zhai2019.sample_level, fitting)
    dims = levels("dim", zhai2019.EMBEDDING_DIMS, softmax, "embedding_dim")
    shares = levels("share", _SHARES, softmax, "class_share")
    at_512 = replace(protocol, embedding_dim=512)
    yield _study(main, "zhai2019", protocol, zhai2019.METHODS)
    yield _study(main, "zhai2019/losses", at_512, ONE_PIPELINE, sweep=True)
    yield _study(main, "zhai2019/losses-equal", at_512, rows(_equal_losses(_classes(main))), sweep=True)
    yield _study(main, "zhai2019/dims", protocol, rows(dims), sweep=True)
    yield _study(main, "zhai2019/samples", at_512, rows(samples), sweep=True)
    yield _study(main, "zhai2019/layer_norm", at_512, rows(zhai2019.layer_norm(softmax)), sweep=True)
    yield _study(main, "zhai2019/shares", at_512, rows(shares), sweep=True)


_SHARES = (1.0, 0.5, 0.25, 0.1)  # a thousandth of our classes would be none


_loss = partial(fixed_method, layout=(15, 5), kind="embedding")
ONE_PIPELINE = (
    _loss("contrastive", "Contras.", "contrastive", "hadsell2006", 2006, pos_margin=0, neg_margin=1),
    _loss("lifted_structure", "Lift. Struc", "lifted_structure", "song2016lifted", 2016, neg_margin=1),
    _loss("histogram", "Hist Loss", "histogram", "ustinova2016", 2016, n_bins=64),
    _loss("n_pairs", "Npairs", "n_pairs", "sohn2016", 2016, layout=(37, 2), l2_weight=0.0005),
    _loss(
        "angular", "Angular", "angular_fehervari", "wang2017angular", 2017, layout=(37, 2), alpha=45, l2_weight=0.0005
    ),
    _loss("margin", "Margin", "margin_distance_pairs", "wu2017sampling", 2017, margin=0.2, beta=1.2),
    # its proxies are as long as the class weights of normalised softmax: 0.577 in 512 dimensions
    _loss("proxy_nca", "Proxy NCA", "proxy_nca_original", "movshovitz2017", 2017, softmax_scale=9, proxy_std=0.0255),
    *zhai2019.METHODS[:1],
)
"""Tables 1 to 3 of Zhai and Wu quote other papers' numbers; here these losses run alike, in batches that suit them."""


def _equal_losses(classes: int) -> list[Level]:
    """Every loss in batches of 5 images of 15 classes; normalised softmax in two more layouts, as the classes allow.

    N-pairs and the angular loss see two of the five images.
    """
    in_fives = [replace(method, classes_per_batch=15, images_per_class=5) for method in ONE_PIPELINE]
    others = [zhai2019.sample_level(layout) for layout in ((1, 75), (25, 3)) if layout[1] <= classes]
    return [Level("5x15", tuple(in_fives)), *others]


_ORDERS = 10
"""Random orders of the classes, beside the default one, around the tables that are searched more than once."""


def _oi(main: Study) -> Iterator[Study]:
    protocol = _adapted(main, oi2021.PROTOCOL)
    for order in CLASS_ORDERS:  # Table 1
        name = "oi2021" if order == "default" else f"oi2021/{order}"
        yield _study(main, name, protocol, oi2021.METHODS, class_order=order, seed=oi2021.SEED + main.seed)
    for number in range(2, _ORDERS + 1) if main.repetitions > 1 else ():  # the first random one stands above
        seed = oi2021.SEED + main.seed + number
        yield _study(main, f"oi2021/order-{number}", protocol, oi2021.METHODS, class_order="random", seed=seed)


def _zeng(main: Study) -> Study:
    """Distances within and between classes while three losses train, of which Zeng et al. 2026 say who keeps more.

    At their own settings, and at those that the first of the table's searches found; with a start that never learns.
    3,000 steps, none ends earlier: a search's best checkpoints lie there or a little later.
    """
    of = {"usual": {name: {} for name in tuned.OF_VARIANCE}, "searched": tuned.OF_VARIANCE}
    sweep = [Level(n, tuple(replace(after2019.KNOWN[m], space={}, settings=s[m]) for m in s)) for n, s in of.items()]
    untrained = Level("untrained", sweep[0].methods[:1], {"lr": 0.0, "max_epochs": 4})
    length = {"iterations_per_epoch": 25, "eval_every": 4, "patience": 120, "max_epochs": 120}
    distances = ("pi_intra", "pi_inter")
    recorded = {"test_metrics": (*TEST_METRICS, *distances), "val_metrics": ("map_at_r", "precision_at_1", *distances)}
    protocol = replace(main.protocol, per_class=False, train_metrics=distances, **length, **recorded)
    return _study(main, "variance", protocol, rows([*sweep, untrained]), sweep=True)


def _rates(main: Study, protocol: Protocol, methods: tuple[Method, ...]) -> Study:
    """Study that chose a paper's rate: a few of its methods at three rates, scored on the validation folds alone."""
    judged = tuple(method for method in methods if method.name in _RATE_METHODS[protocol.paper])
    rates = (_FROZEN_RATES if protocol.frozen_trunk else _CHARACTERS_RATES)[protocol.optimizer]
    return _grid_study(main, protocol, levels("rate", rates, judged, "lr"))


def _rate_grid(main: Study, protocol: Protocol, methods: tuple[Method, ...]) -> Study:
    """Study that chooses a paper's rate around this table: more methods and rates, with worse ones to either side.

    Where the experiments train without validation, what counts is the model at the end.
    """
    if protocol.paper == "zhai2019":
        others = [method for method in ONE_PIPELINE if method not in methods]
        methods += tuple(replace(method, changes={"embedding_dim": 512}) for method in others)
    judged = tuple(method for method in methods if method.name in _GRID_METHODS[protocol.paper])
    last = {} if protocol.validates else {"eval_every": protocol.max_epochs}
    return _grid_study(main, replace(protocol, **last), levels("rate", _GRID_RATES[protocol.optimizer], judged, "lr"))


def _grid_study(main: Study, protocol: Protocol, sweep: Sequence[Level]) -> Study:
    """Try every row once, on four validation folds."""
    watched = replace(
        protocol,
        lr=sweep[1].number,  # every row has its own; this one must not change with the choice
        **{"folds": 4, "split": "halves", "arrays": (), "train_metrics": (), "binary": False},
        val_metrics=("map_at_r", "precision_at_1"),
    )
    capped = replace(main, dataset=_dataset(main), budget=replace(main.budget, **_caps(main)))
    return capped.rates(f"{protocol.paper}/rates", rows(sweep), protocol=watched, expected="3 minutes, 2 cores")
