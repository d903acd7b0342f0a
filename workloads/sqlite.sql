-- Run as: sqlite3 :memory: < sqlite.sql
-- Inserts, an index, joins, aggregates, updates, deletes and text; no clock, no random numbers.
PRAGMA cache_size = 500;

CREATE TABLE author (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE book (id INTEGER PRIMARY KEY, author INTEGER REFERENCES author, title TEXT, pages INTEGER);

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
INSERT INTO author SELECT i, printf('author %04d', (i * 7919) % 1000) FROM n;

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO book
SELECT i, 1 + (i * 104729) % 500, printf('title %d %s', i, hex(i * 2654435761)), 50 + (i * 31) % 900
FROM n;

CREATE INDEX book_by_author ON book (author, pages);

SELECT 'books', count(*), sum(pages), max(length(title)) FROM book;

SELECT name, count(*) AS books, sum(pages) AS pages, group_concat(substr(title, 1, 9), ';') <> ''
FROM author JOIN book ON book.author = author.id
GROUP BY author.id ORDER BY pages DESC, name LIMIT 10;

UPDATE book SET title = title || ' (second edition)' WHERE pages % 7 = 0;
DELETE FROM book WHERE author % 10 = 3;

SELECT 'left', count(*), sum(length(title)) FROM book;

SELECT pages / 100 AS hundreds, count(*), min(title), upper(max(title))
FROM book WHERE title LIKE '%edition%' GROUP BY hundreds ORDER BY hundreds;

SELECT name, rank() OVER (ORDER BY total DESC, name) AS place, total
FROM (SELECT name, sum(pages) AS total FROM author JOIN book ON book.author = author.id GROUP BY author.id)
ORDER BY place LIMIT 5;

VACUUM;
PRAGMA integrity_check;
