"""Reading a data set: images, labels, class names."""

import functools
import os
from dataclasses import replace

from dmlrc.data import features, glyphs, icons
from dmlrc.data import folder as class_folders
from dmlrc.data.available import FEATURES, check_known, folder_path
from dmlrc.data.cache import cached_images
from dmlrc.data.decoding import Form
from dmlrc.data.download import locate, require_whole
from dmlrc.data.features import FeatureSet
from dmlrc.data.listing import ImageSet, Listing, data_root
from dmlrc.data.registry import OWN_PHOTOGRAPH, SOURCES


def load(
    name: str, root: str | os.PathLike | None = None, size: int | None = None, square: str = "crop"
) -> ImageSet | FeatureSet:
    """Load the images of a data set with their labels; image files are decoded once and then read from the cache.

    Parameters
    ----------
    name : one of `names()`, or "folder:PATH" for a folder with one sub-folder a class
    root : the folder that holds the data sets, each in a folder of its name; defaults to $DMLRC_DATA
        A set that lies there as its archives is unpacked into the cache once; the folder itself may be read-only.
    size : side of the images in pixels
        Default 28 for characters, 32 for icons, 112 for Grocery Store and the cropped cars, 224 for CUB-200 (2010), 256
        for other photographs.
    square : how a photograph becomes square, "crop" (the centre) or "squash"; see `dmlrc.data.decoding`

    Returns
    -------
    `ImageSet`, or for "grocery-lite0" `FeatureSet`

    Raises
    ------
    UsageError
        For an unknown name.
    MissingDataError
        With the way to get the set where it is not there.
    DmlrcError
        For damaged files, or a set that has a name but not all of its images: its numbers would be mixed with those of
        the complete one.
    """
    check_known(name)
    if name in glyphs.NAMES:
        form = _form(Form(glyphs.SIZE, channels=1), size, square)
        return _drawn(form.size, every=1 if name == "glyphs" else 8)
    if name == "icons":
        return icons.load_icons(_form(Form(icons.SIZE, channels=1), size, square).size)
    if name in FEATURES:
        return features.load_features(name)
    if name.startswith("folder:"):
        path = folder_path(name)
        listing = class_folders.read_class_folders(path)
        return _decode(f"folder:{path.name}", listing, _form(OWN_PHOTOGRAPH, size, square), flip=True)
    folder, source = locate(name, data_root(root)), SOURCES[name]
    listing = source.listing(folder)
    require_whole(name, listing, str(folder))
    return _decode(name, listing, _form(source.form, size, square), source.flip)


@functools.lru_cache(maxsize=4)
def _drawn(size: int, every: int) -> ImageSet:
    """The glyphs, drawn once in a process, which takes seconds; nobody can write to them, as to a memory map."""
    glyph_images = glyphs.draw_glyphs(size, every)
    glyph_images.images.flags.writeable = False
    return glyph_images


def _form(default: Form, size: int | None, square: str) -> Form:
    return replace(default, size=default.size if size is None else size, square=square)


def _decode(name: str, listing: Listing, form: Form, flip: bool) -> ImageSet:
    images = cached_images(name, listing.files, form)
    return ImageSet(name, images, listing.labels, listing.class_names, flip, listing.partition)
