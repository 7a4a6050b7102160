"""The book's first page: `page` has the answer in sentences and its numbers, `figures` draws what stands beside it."""
