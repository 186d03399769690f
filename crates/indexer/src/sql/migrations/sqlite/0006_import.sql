-- Which Gnocchi's import the index is, by its place, as long as no server of gnudi has opened it.
ALTER TABLE cluster ADD COLUMN imported_from TEXT;
