"""`python -m dmlrc.report.neighbours`: train the models of the chapter on scores again, and record what they embed."""

from tqdm import tqdm

from dmlrc.report.neighbours import gallery, measures


def main() -> None:
    galleries = gallery.grocery(), gallery.glyphs()
    for each in (bar := tqdm(galleries, desc="neighbours")):
        bar.set_postfix_str(each.dataset)
        measures.record(each, measures.LOSSES[each.dataset], measures.EPOCHS[each.dataset])


if __name__ == "__main__":
    main()
