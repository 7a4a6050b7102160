"""`python -m dmlrc.report.neighbours`: train the models of the chapter on scores again, and record what they embed."""

from dmlrc.report.neighbours import gallery, measures

if __name__ == "__main__":
    for each in (gallery.grocery(), gallery.glyphs()):
        measures.record_spaces(each, measures.LOSSES[each.dataset], measures.EPOCHS[each.dataset])
