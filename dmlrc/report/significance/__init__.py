"""Real differences of methods in a study: `measures` computes, `page` has the cells and sentences, `figures` draws."""
