"""The layouts of the data sets of image files: from a set's folder to its images and classes.

The official train and test flags of CUB200 and Cars196 share all classes and are of no use here.
"""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dmlrc.data.listing import Listing, from_class_folders, sub_folders


def read_omniglot(folder: Path) -> Listing:
    """Omniglot: 1,623 handwritten characters of 50 alphabets, each drawn by 20 people, 32,460 images of 105 x 105.

    Background (30 alphabets) then evaluation (20), alphabets and characters in name order; names are
    "Alphabet/characterNN". The files are black strokes on white; the study stores them inverted, light strokes on dark
    as in glyphs, and reduced to 28 x 28 pixels. Layout: `images_background/<Alphabet>/characterNN/*.png` and
    `images_evaluation/...`.

    References
    ----------
    Lake, Salakhutdinov and Tenenbaum, Human-level concept learning through probabilistic program induction, Science
    2015.
    """
    parts = ("images_background", "images_evaluation")
    characters = [c for part in parts for alphabet in sub_folders(folder / part) for c in sub_folders(alphabet)]
    return from_class_folders(characters, [f"{c.parent.name}/{c.name}" for c in characters])


def read_grocery(folder: Path) -> Listing:
    """Grocery Store: 5,421 smartphone photographs of fruit, vegetables and cartons, 81 fine-grained classes.

    All images, train then val then test: the study splits by class, the three lists stay visible as the partition.
    Classes were photographed in short series, so nearest neighbours are often sister shots of one shelf. Layout:
    `dataset/{train,val,test}.txt` with lines "path, fine id, coarse id", and `dataset/classes.csv`.

    References
    ----------
    Klasson, Zhang and Kjellström, A Hierarchical Grocery Store Image Dataset with Visual and Semantic Labels, WACV
    2019.
    """
    dataset = folder / "dataset"
    images = [(part, *row) for part in ("train", "val", "test") for row in _csv_rows(dataset / f"{part}.txt")]
    names = {int(fine_id): name for name, fine_id, *_ in _csv_rows(dataset / "classes.csv")[1:]}
    return Listing(
        files=tuple(dataset / path for _, path, *_ in images),
        labels=np.array([int(fine_id) for _, _, fine_id, _ in images], dtype=np.int64),
        class_names=tuple(names[i] for i in range(len(names))),
        partition=np.array([part for part, *_ in images]),
    )


def read_cars196(folder: Path) -> Listing:
    """Cars196 (Stanford Cars): 16,185 photographs of 196 car models, 98 for training and 98 for testing.

    All images in the order of the annotation file; class 1..196 becomes label 0..195. `cars196` is the original set;
    `cars196crops` is read from the same layout, with each car cropped to its box and squashed to 112 x 112, and its
    numbers are not comparable with those of the original photographs. Layout: `cars_annos.mat` beside
    `car_ims/NNNNNN.jpg`.

    References
    ----------
    Krause, Stark, Deng and Fei-Fei, 3D Object Representations for Fine-Grained Categorization, 3dRR 2013.
    """
    from scipy.io import loadmat  # it takes long to import, and the names of data sets are listed without it

    contents = loadmat(folder / "cars_annos.mat", squeeze_me=True)
    annotations = np.atleast_1d(contents["annotations"])
    return Listing(
        files=tuple(folder / str(path) for path in annotations["relative_im_path"]),
        labels=annotations["class"].astype(np.int64) - 1,
        class_names=tuple(str(name) for name in np.atleast_1d(contents["class_names"])),
    )


def read_cub200(folder: Path) -> Listing:
    """CUB200 (Caltech-UCSD Birds-200-2011): 11,788 photographs of 200 bird species, 100 for training, 100 for testing.

    All images by image id; class 1..200 becomes label 0..199. Layout: `images.txt` (id, path below `images/`),
    `image_class_labels.txt` (id, class) and `classes.txt` (class, name).

    References
    ----------
    Wah, Branson, Welinder, Perona and Belongie, The Caltech-UCSD Birds-200-2011 Dataset, Caltech 2011.
    """
    classes = dict(_rows(folder / "image_class_labels.txt"))
    images = _rows(folder / "images.txt")
    names = {int(number): name for number, name in _rows(folder / "classes.txt")}
    return Listing(
        files=tuple(folder / "images" / path for _, path in images),
        labels=np.array([int(classes[image]) - 1 for image, _ in images], dtype=np.int64),
        class_names=tuple(names[number] for number in sorted(names)),
    )


def read_cub200_2010(folder: Path) -> Listing:
    """CUB-200 (2010), Caltech-UCSD Birds 200: 6,033 photographs of 200 bird species, 100 for training, 100 for testing.

    All images by species, then by file name. It is the first edition of the set that CUB200 in the papers means
    (`read_cub200`): the same species, half the images. The study's copy holds a square of 224 x 224 pixels around each
    bird, so its numbers are not comparable with those of the papers. Layout: `images/NNN.Species_name/*.jpg`.

    References
    ----------
    Welinder, Branson, Mita, Wah, Schroff, Belongie and Perona, Caltech-UCSD Birds 200, CNS-TR-2010-001, Caltech 2010.
    """
    species = sub_folders(folder / "images")
    return from_class_folders(species, [bird.name for bird in species])


def read_sop(folder: Path) -> Listing:
    """SOP (Stanford Online Products): 120,053 photographs of 22,634 products from eBay, in 12 super-classes.

    Training then test images in the order of the lists; class 1..22634 becomes label 0..22633. `splits.official` keeps
    this division; `splits.halves` takes the first 11,317 classes, as Musgrave et al. do, and so tests one official
    training class. Layout: `Ebay_train.txt` (59,551 images, classes 1..11318) and `Ebay_test.txt` (60,502 images), each
    with the columns image_id, class_id, super_class_id, path.

    References
    ----------
    Song, Xiang, Jegelka and Savarese, Deep Metric Learning via Lifted Structured Feature Embedding, CVPR 2016.
    """
    images = [(part, *row) for part in ("train", "test") for row in _rows(folder / f"Ebay_{part}.txt")[1:]]
    labels = np.array([int(class_id) - 1 for _, _, class_id, _, _ in images], dtype=np.int64)
    kind = {label: path.split("_final/")[0] for label, (*_, path) in zip(labels.tolist(), images, strict=True)}
    return Listing(
        files=tuple(folder / path for *_, path in images),
        labels=labels,
        class_names=tuple(f"{kind[label]} {label + 1}" for label in sorted(kind)),
        partition=np.array([part for part, *_ in images]),
    )


def read_inshop(folder: Path) -> Listing:
    """In-Shop Clothes Retrieval (DeepFashion): 52,712 photographs of 7,982 items, with separate queries and gallery.

    All images in the order of the list; the training items are the first classes, each part in the items' order.
    Training has 25,882 images of 3,997 items; the other 3,985 items have 14,218 query and 12,612 gallery images, and a
    query is searched among the gallery only. Layout: `Eval/list_eval_partition.txt` (path, item, "train", "query" or
    "gallery") and the images below `img/` or `Img/img/`.

    Raises
    ------
    ValueError
        If an item is both for training and for testing.

    References
    ----------
    Liu, Luo, Qiu, Wang and Tang, DeepFashion: Powering Robust Clothes Recognition and Retrieval with Rich Annotations,
    CVPR 2016.
    """
    paths, items, parts = zip(*_rows(folder / "Eval" / "list_eval_partition.txt")[2:], strict=True)
    training = {item for item, part in zip(items, parts, strict=True) if part == "train"}
    testing = {item for item, part in zip(items, parts, strict=True) if part != "train"}
    if both := training & testing:
        raise ValueError(f"item {min(both)} is both for training and for testing")
    classes = [*sorted(training), *sorted(testing)]
    label = {item: i for i, item in enumerate(classes)}
    home = folder / "Img" if (folder / "Img" / "img").is_dir() else folder
    return Listing(
        files=tuple(home / path for path in paths),
        labels=np.array([label[item] for item in items], dtype=np.int64),
        class_names=tuple(classes),
        partition=np.array(parts),
    )


def _rows(file: Path) -> Sequence[list[str]]:
    """The lines of a text file that are not empty, split at white space."""
    return [line.split() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def _csv_rows(file: Path) -> Sequence[list[str]]:
    with file.open(newline="", encoding="utf-8") as stream:
        return [[cell.strip() for cell in row] for row in csv.reader(stream) if row]
