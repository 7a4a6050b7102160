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
    """The images that are on disk in the place of whole photographs."""
    name, protocol = records.meta["dataset"], records.meta["protocol"]
    cut = {"crop": "a centre square of each photograph", "squash": "each photograph, squashed to a square"}
    what = SQUARES.get(name, cut[protocol["square"]])
    source = SOURCES.get(name.removesuffix("-lite0"))  # features are those of photographs
    if source is not None and source.form.size < protocol["image_size"]:
        what += f", stored at {source.form.size} pixels and enlarged"
    return f"{what}; training crops are not anti-aliased" if protocol["augmentation"] == "crop" else what


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
    return f"{count}" if searches == 1 else f"{count} after each of {searches} searches"


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


def few_classes(records: StudyRecords) -> str:
    classes, folds = _half(records)
    train = classes - classes // folds
    if not 0 < train < max(method.classes_per_batch for method in musgrave2020.METHODS):
        return ""
    return f"a batch of more classes than a fold's {train} takes half of them with twice the images, and keeps its size"


def _half(records: StudyRecords) -> tuple[int, int]:
    """The number of classes in the first half, and of the parts into which it is cut; 1 without validation."""
    return records.meta["data"]["classes"] // 2, records.meta["protocol"]["folds"] or 1


def switch_probability(records: StudyRecords) -> str:
    settings = records.meta.get("settings", {}).values()
    rates = {own["switch_probability"] for own in settings if "switch_probability" in own}
    return ", ".join(f"{rate:g}" for rate in sorted(rates))


def rates_of_losses(records: StudyRecords) -> str:
    rate = records.meta.get("settings", {}).get("softmax", {}).get(LOSS_WEIGHTS_LR)
    softmax = "(Softmax, SoftTriple)" if rate is None else f"(SoftTriple), {labels.number(rate)} (Softmax)"
    return f"that of the embedder {softmax} and 5·10⁻⁴ (ArcFace, Pnca, Margin)"


def batches_of_the_grid(records: StudyRecords) -> str:
    """The differences of the batches in which a study's rate was chosen from its own."""
    grid = studies.known().get(f"{records.meta['parent']}/roth2020/rates")
    if grid is None:
        return ""
    classes = records.meta["data"]["classes"] // 2
    in_fold = classes - classes // grid.protocol.folds
    layouts = {batch_layout(method, classes): batch_layout(method, in_fold) for method in grid.methods}
    changed = [
        f"{there[0]} classes of {there[1]} images in the place of the table's {here[0]} of {here[1]}"
        for here, there in layouts.items()
        if here != there
    ]
    return f"{labels.listed(changed)}, since a fold of the grid has {in_fold} classes" if changed else ""


def boundaries(records: StudyRecords) -> str:
    rate = records.meta.get("settings", {}).get("margin", {}).get(LOSS_WEIGHTS_LR)
    protocol = common.protocol_of(records, "margin")
    decays = protocol["weight_decay"] if protocol["loss_weight_decay"] is None else protocol["loss_weight_decay"]
    return (
        "trained with the rest by Adam, at the rate "
        f"{'of the embedder' if rate is None else labels.number(rate)}, with{'' if decays else 'out'} weight decay"
    )


def schedule(records: StudyRecords) -> str:
    decay = labels.setting("weight_decay", records.meta["protocol"]["weight_decay"])
    return f"the network's rate is one for all losses and never falls; weight decay {decay}"


def members(records: StudyRecords) -> str:
    return f"{fehervari.trunk_and_size(records, 'dreml')}, joined"


def number_of_orders(records: StudyRecords) -> str:
    """The number of random orders that were run around the same table, such as "3 orders"."""
    return labels.plural(len(experiments.class_orders(records.meta["parent"])) - 1, "order")


def resized_first(records: StudyRecords) -> str:
    protocol = records.meta["protocol"]
    if protocol["augmentation"] != "crop":
        return ""
    return f"resized to {protocol['image_size']} x {protocol['image_size']} pixels, then cropped and resized again"


def number_of_bins(records: StudyRecords) -> str:
    return f"{BINS} on [-1, 1]"
