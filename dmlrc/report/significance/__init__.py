"""Real differences between methods: `measures` computes, `page` has the cells and sentences, `figures` draws."""
