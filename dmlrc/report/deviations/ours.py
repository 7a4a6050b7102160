"""Texts on our studies in the rows of the ledgers: functions of their records; "" where there is nothing to say."""

from dmlrc import studies
from dmlrc.data.registry import SOURCES
from dmlrc.methods import LOSS_WEIGHTS_LR
from dmlrc.metrics.histograms import BINS
from dmlrc.papers import musgrave2020
from dmlrc.records import StudyRecords
from dmlrc.report import common, labels
from dmlrc.report.fehervari2019 import page as fehervari
from dmlrc.studies import experiments
from dmlrc.training import batch_layout

SQUARES = {
    **dict.fromkeys(("glyphs", "glyphs-small", "icons", "omniglot"), "drawings, which are squares"),
    "cars196crops": "the box of each car, squashed to a square",
    "cub200_2010": "a square around each bird, with black borders where the photograph ended",
}
"""The data sets whose images are squares before this study stores them."""


dataset_name = labels.dataset


def stored_images(records: StudyRecords) -> str:
    """The images that are on disk in the place of whole photographs, and how training crops are made of them."""
    name, protocol = records.meta["dataset"], records.meta["protocol"]
    cut = {"crop": "a centre square of each photograph", "squash": "each photograph, squashed to a square"}
    parts = [SQUARES.get(name, cut[protocol["square"]])]
    source = SOURCES.get(name.removesuffix("-lite0"))  # features are those of photographs
    if source is not None and source.form.size < protocol["image_size"]:
        parts.append(f"{source.form.size} pixels, enlarged")
    return ", ".join(parts + ["training crops not anti-aliased"] * crops_at_random(records))


def images_per_batch(records: StudyRecords) -> str:
    """The sizes of the batches that the methods of a study ask for, as "60" or "60 to 75"."""
    study = studies.known().get(records.name)
    if study is None:
        return ""
    sizes = sorted({method.classes_per_batch * method.images_per_class for method in study.methods})
    return " to ".join(str(size) for size in dict.fromkeys((sizes[0], sizes[-1])))


def seeds(records: StudyRecords) -> str:
    count = records.meta["budget"]["reruns"]
    return f"{count} seed{'s' if count != 1 else ''} a row"


def reruns(records: StudyRecords) -> str:
    """The number of reruns of a setting that a search found, and of the searches if there are several, as text."""
    count, searches = records.meta["budget"]["reruns"], records.meta.get("repetitions", 1)
    return f"{count}" if searches == 1 else f"{searches} searches, {count} each"


def budget(records: StudyRecords) -> str:
    asked = records.meta["budget"]
    return "" if asked["name"] == "full" else ", ".join(labels.plural(asked[f"{of}s"], of) for of in ("trial", "rerun"))


def names_starts(records: StudyRecords) -> bool:
    """True if a study's settings name the length at which class weights and proxies begin."""
    settings = records.meta.get("settings", {}).values()
    return any({"weight_length", "proxy_std"} & own.keys() for own in settings)


def is_sop(records: StudyRecords) -> bool:
    return records.meta["dataset"] == "sop"


def never_validate(records: StudyRecords) -> str:
    """The classes of the first half that are left over when it is cut into parts of one size; "" where none are."""
    classes, folds = _half(records)
    return f"{classes % folds} of {classes}" if classes % folds else ""


def few_classes(records: StudyRecords) -> bool:
    """True if a fold has fewer classes to train on than the largest batches ask for."""
    classes, folds = _half(records)
    return 0 < classes - classes // folds < max(method.classes_per_batch for method in musgrave2020.METHODS)


def _half(records: StudyRecords) -> tuple[int, int]:
    """The number of classes in the first half, and of the parts into which it is cut; 1 without validation."""
    return records.meta["data"]["classes"] // 2, records.meta["protocol"]["folds"] or 1


def switch_probability(records: StudyRecords) -> str:
    settings = records.meta.get("settings", {}).values()
    rates = {own["switch_probability"] for own in settings if "switch_probability" in own}
    return ", ".join(f"{rate:g}" for rate in sorted(rates))


def rates_of_losses(records: StudyRecords) -> str:
    rate = records.meta.get("settings", {}).get("softmax", {}).get(LOSS_WEIGHTS_LR)
    softmax = "the embedder's" if rate is None else labels.number(rate)
    return f"{softmax} (Softmax), the embedder's (SoftTriple), 5·10⁻⁴ (ArcFace, Pnca, Margin)"


def batches_of_the_grid(records: StudyRecords) -> str:
    """The batches in which a study's rate was chosen, and its own, where these are others."""
    grid = studies.known().get(f"{records.meta['parent']}/roth2020/rates")
    if grid is None:
        return ""
    classes = records.meta["data"]["classes"] // 2
    in_fold = classes - classes // grid.protocol.folds
    layouts = {batch_layout(method, classes): batch_layout(method, in_fold) for method in grid.methods}
    changed = [(*there, *here) for here, there in layouts.items() if here != there]
    return ", ".join("{} classes x {} images (table: {} x {})".format(*sizes) for sizes in changed)


def boundaries(records: StudyRecords) -> str:
    rate = records.meta.get("settings", {}).get("margin", {}).get(LOSS_WEIGHTS_LR)
    protocol = common.protocol_of(records, "margin")
    decays = protocol["weight_decay"] if protocol["loss_weight_decay"] is None else protocol["loss_weight_decay"]
    as_others = "the embedder's"
    own, decay = as_others if rate is None else labels.number(rate), as_others if decays else "none"
    return f"the run's Adam: rate {own}, weight decay {decay}"


def members(records: StudyRecords) -> str:
    return f"{fehervari.trunk_and_size(records, 'dreml')}, joined"


def number_of_orders(records: StudyRecords) -> str:
    """The number of random orders that were run around the same table, such as "3 orders"."""
    return labels.plural(len(experiments.class_orders(records.meta["parent"])) - 1, "order")


def crops_at_random(records: StudyRecords) -> bool:
    return records.meta["protocol"]["augmentation"] == "crop"


def number_of_bins(records: StudyRecords) -> str:
    return f"{BINS} on [-1, 1]"
