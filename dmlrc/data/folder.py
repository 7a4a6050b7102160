"""A folder of one's own images: one sub-folder a class, classes in name order."""

from pathlib import Path

from dmlrc.data.listing import Listing, from_class_folders, sub_folders
from dmlrc.errors import DmlrcError, MissingDataError


def read(folder: Path) -> Listing:
    """All images of all sub-folders. Raises DmlrcError for a sub-folder without images, which would be no class."""
    if not folder.is_dir():
        raise MissingDataError(f"there is no folder {folder}: folder:PATH names a folder with one sub-folder a class")
    classes = sub_folders(folder)
    if not classes:
        raise MissingDataError(f"folder {folder} has no sub-folders: put the images of each class into one")
    listing = from_class_folders(classes, [c.name for c in classes])
    if empty := set(range(len(classes))) - set(listing.labels.tolist()):
        raise DmlrcError(
            f"folder {classes[min(empty)]} holds no images: remove it, or put the images of its class there"
        )
    return listing
