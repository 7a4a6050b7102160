"""The book's first page: `page` has its numbers, `figures` its picture, whose export is the README's too."""
