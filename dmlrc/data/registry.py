"""Data sets of image files: how each is found, read and stored, what it holds, and where it comes from."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dmlrc.data import sets
from dmlrc.data.decoding import Form
from dmlrc.data.listing import Listing
from dmlrc.errors import DmlrcError, MissingDataError

PHOTOGRAPH = Form(size=256)
OWN_PHOTOGRAPH = Form(size=256, upright=True)
SMALL_PHOTOGRAPH = Form(size=112)
CHARACTER = Form(size=28, channels=1, ink=True)


@dataclass(frozen=True)
class Archive:
    """A file of the official distribution.

    md5: of the official file, or None where we know of none; the counts of the unpacked set are checked in any case.
    url: None where there is no direct link, so that the user has to bring the file.
    into: the folder below the data set's that it is unpacked into; a file that is no archive is copied there.
    """

    filename: str
    md5: str | None
    url: str | None = None
    into: str = "."


@dataclass(frozen=True)
class DataSource:
    """A data set of image files.

    read: from the set's folder to its listing. markers: what the unpacked set has below that folder, and nothing else.
    folders: names below the data root that the set may have; messages and downloads use the first.
    images, classes: how many the complete set holds. origin: where a file without a link comes from.
    """

    read: Callable[[Path], Listing]
    folders: tuple[str, ...]
    markers: tuple[str, ...]
    images: int
    classes: int
    archives: tuple[Archive, ...]
    origin: str = ""
    form: Form = PHOTOGRAPH
    flip: bool = True

    def listing(self, folder: Path) -> Listing:
        """Call `read`. Raises DmlrcError for lists that cannot be understood."""
        try:
            listing = self.read(folder)
            if len(listing.labels) and not 0 <= listing.labels.min() <= listing.labels.max() < len(listing.class_names):
                raise ValueError(
                    f"classes run from {listing.labels.min()} to {listing.labels.max()}, but "
                    f"{len(listing.class_names)} have names"
                )
            return listing
        except DmlrcError:
            raise
        except Exception as error:  # readers of tables and of .mat files raise what they like on damaged ones
            raise DmlrcError(
                f"the lists in {folder} cannot be read ({type(error).__name__}: {error}): "
                "unpack the original files again"
            ) from error


SOURCES = {
    # Checksums: the two of torchvision's Omniglot.
    "omniglot": DataSource(
        sets.read_omniglot,
        folders=("omniglot",),
        markers=("images_background", "images_evaluation"),
        images=32_460,
        classes=1_623,
        archives=tuple(
            Archive(
                f"{part}.zip", md5, f"https://raw.githubusercontent.com/brendenlake/omniglot/master/python/{part}.zip"
            )
            for part, md5 in (
                ("images_background", "68d2efa1b9178cc56df9314c21c6e718"),
                ("images_evaluation", "6b91aef0f799c5bb55b94e3f2daec811"),
            )
        ),
        form=CHARACTER,
        flip=False,
    ),
    "grocery": DataSource(
        sets.read_grocery,
        folders=("grocery", "grocery-store-112", "GroceryStoreDataset"),
        markers=("dataset/classes.csv",),
        images=5_421,
        classes=81,
        archives=(
            Archive(
                "GroceryStoreDataset.zip",
                md5=None,  # GitHub packs the repository anew
                url="https://github.com/marcusklasson/GroceryStoreDataset/archive/refs/heads/master.zip",
            ),
        ),
        form=SMALL_PHOTOGRAPH,
    ),
    # The official links (ai.stanford.edu/~jkrause) are dead; the checksums are those of the files they gave.
    "cars196": DataSource(
        sets.read_cars196,
        folders=("cars196",),
        markers=("cars_annos.mat", "car_ims"),
        images=16_185,
        classes=196,
        archives=(
            Archive("car_ims.tgz", "d5c8f0aa497503f355e17dc7886c3f14"),
            Archive("cars_annos.mat", "b407c6086d669747186bd1d764ff9dbc"),
        ),
        origin="the links on Stanford's page ai.stanford.edu/~jkrause/cars/car_dataset.html are dead, copies circulate",
    ),
    "cars196crops": DataSource(
        sets.read_cars196,
        folders=("cars196crops", "cars196-cropped112"),
        markers=("cars_annos.mat", "car_ims"),
        images=16_185,
        classes=196,
        archives=(
            Archive("car_ims_classes001-098.zip", md5=None),
            Archive("car_ims_classes099-196.zip", md5=None),
            Archive("cars_annos.mat", "b407c6086d669747186bd1d764ff9dbc"),
        ),
        origin="the cropped images are nowhere published in this form",
        form=SMALL_PHOTOGRAPH,
    ),
    "cub200": DataSource(
        sets.read_cub200,
        folders=("cub200", "CUB_200_2011"),
        markers=("image_class_labels.txt",),
        images=11_788,
        classes=200,
        archives=(
            Archive(
                "CUB_200_2011.tgz",
                "97eceeb196236b17998738112f37df78",
                "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
            ),
        ),
    ),
    "cub200_2010": DataSource(
        sets.read_cub200_2010,
        folders=("cub200_2010", "cub200-2010-224"),
        markers=("images",),
        images=6_033,
        classes=200,
        archives=(Archive("cub200_2010_images.zip", md5=None),),
        origin="the squares around the birds are nowhere published as an archive",
        form=Form(size=224),
    ),
    "sop": DataSource(
        sets.read_sop,
        folders=("sop", "Stanford_Online_Products"),
        markers=("Ebay_train.txt",),
        images=120_053,
        classes=22_634,
        archives=(
            Archive(
                "Stanford_Online_Products.zip",
                "7f73d41a2f44250d4779881525aea32e",
                "http://ftp.cs.stanford.edu/cs/cvgl/Stanford_Online_Products.zip",
            ),
        ),
    ),
    "inshop": DataSource(
        sets.read_inshop,
        folders=("inshop", "In-shop Clothes Retrieval Benchmark"),
        markers=("Eval/list_eval_partition.txt",),
        images=52_712,
        classes=7_982,
        archives=(Archive("img.zip", md5=None, into="Img"), Archive("list_eval_partition.txt", md5=None, into="Eval")),
        origin=(
            "mmlab.ie.cuhk.edu.hk/projects/DeepFashion/InShopRetrieval.html gives them after a licence agreement, "
            "through Google Drive"
        ),
    ),
}


def downloads_folder(name: str, root: Path) -> Path:
    """Folder that the archives of a data set are downloaded to, or put into by hand."""
    return root / "downloads" / name


def way_to_get(name: str, root: Path) -> str:
    """The command or the steps by which a data set that is missing is got, as the end of a sentence."""
    command = f"run `dmlrc data fetch {name}`"
    by_hand = [archive.filename for archive in SOURCES[name].archives if archive.url is None]
    if not by_hand:
        return command
    return f"put {' and '.join(by_hand)} into {downloads_folder(name, root)} ({SOURCES[name].origin}), then {command}"


def unpacked(name: str, root: Path) -> Path | None:
    """The folder of a data set: one of its names below the root, or a folder directly inside it.

    Archives unpack into a folder of their own as often as not, so both places count.
    """
    source = SOURCES[name]
    return next((f for folder in source.folders if (f := home_in(root / folder, source.markers))), None)


def packed(name: str, root: Path) -> list[Path] | None:
    """Find all archives of a data set, where they lie in one of its folders below the root."""
    source = SOURCES[name]
    places = ([root / folder / archive.filename for archive in source.archives] for folder in source.folders)
    return next((files for files in places if all(file.is_file() for file in files)), None)


def home_in(folder: Path, markers: tuple[str, ...]) -> Path | None:
    """The folder itself or one directly inside it, whichever holds the markers."""
    try:
        inner = sorted(p for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []
    except PermissionError:
        raise MissingDataError(f"folder {folder} may not be read: make it readable") from None
    return next((f for f in (folder, *inner) if all((f / marker).exists() for marker in markers)), None)
