"""`python -m dmlrc.report.neighbours`: train the models of the chapter on scores again, and record what they embed."""

from dmlrc.report.neighbours import gallery, measures

if __name__ == "__main__":
    for shown in (gallery.grocery(), gallery.glyphs()):
        measures.record_spaces(shown, measures.LOSSES[shown.dataset], measures.EPOCHS[shown.dataset])
