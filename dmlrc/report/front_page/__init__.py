"""The book's first page: `page` has its numbers, `figures` its picture, `picture` the same for the README."""
