"""The page of one's own photographs: which loss, how sure, what is found, what a wrong match looks like."""

from pathlib import Path

from dmlrc import paths, plan, records, unit
from dmlrc.inputs import load_images
from dmlrc.protocol import Study
from dmlrc.report.photos import answer, neighbours, page


def write_page(study: Study) -> Path:
    """Write the page of a study that was run, beside its records, and return it.

    The first rerun of the chosen loss is trained once more, for its neighbours. Raises DmlrcError where none finished.
    """
    recorded = records.load(study.name)
    best = answer.chosen_loss(recorded)
    images = load_images(study.dataset, study.effective_protocol)
    places, embeddings = unit.embeddings_of(plan.rerun(study, study.method(best), answer.first_rerun(recorded, best)))
    target = paths.runs() / study.name / "photos.html"
    text = page.render_page(recorded, images, neighbours.nearest_photos(places, images.labels[places], embeddings))
    records.write_whole(target, text.encode())
    return target
