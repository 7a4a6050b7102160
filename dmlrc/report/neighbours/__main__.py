"""`python -m dmlrc.report.neighbours`: train the models of the chapter on scores again, and record what they embed."""

from tqdm import tqdm

from dmlrc.report.neighbours import gallery, measures


def _main() -> None:
    galleries = gallery.grocery(), gallery.glyphs()
    for those in (bar := tqdm(galleries, desc="neighbours")):
        bar.set_postfix_str(those.dataset)
        measures.record_spaces(those, measures.LOSSES[those.dataset], measures.EPOCHS[those.dataset])


if __name__ == "__main__":
    _main()
