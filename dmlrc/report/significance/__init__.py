"""Which methods of a study really differ: `measures` computes, `page` has the cells and sentences, `figures` draws."""
