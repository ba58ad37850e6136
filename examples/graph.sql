-- A social graph: who follows whom, and the accounts somebody watches.
CREATE TABLE follows (src BIGINT NOT NULL, dst BIGINT NOT NULL);
CREATE TABLE watched (id BIGINT NOT NULL);

-- Two hops, with the account in the middle.
CREATE MATERIALIZED VIEW hops AS
SELECT a.src, a.dst AS mid, b.dst FROM follows a JOIN follows b ON a.dst = b.src;

-- How many ways there are to pick two followed accounts and one follower of each account.
CREATE MATERIALIZED VIEW star AS
SELECT a.src, COUNT(*) AS n
FROM follows a JOIN follows b ON a.src = b.src JOIN follows c ON a.src = c.dst
GROUP BY a.src;

-- Three hops, all four accounts.
CREATE MATERIALIZED VIEW three_hops AS
SELECT a.src AS a, b.src AS b, c.src AS c, c.dst AS d
FROM follows a JOIN follows b ON a.dst = b.src JOIN follows c ON b.dst = c.src;

-- Three hops from a watched account to a watched account.
CREATE MATERIALIZED VIEW watched_paths AS
SELECT a.src AS a, b.src AS b, c.src AS c, c.dst AS d
FROM watched v JOIN follows a ON v.id = a.src JOIN follows b ON a.dst = b.src JOIN follows c ON b.dst = c.src
     JOIN watched w ON c.dst = w.id;

-- Friends of friends, each pair once.
CREATE MATERIALIZED VIEW reachable AS
SELECT DISTINCT a.src, b.dst FROM follows a JOIN follows b ON a.dst = b.src;

-- Directed triangles.
CREATE MATERIALIZED VIEW triangles AS
SELECT COUNT(*) AS n FROM follows a, follows b, follows c
WHERE a.dst = b.src AND b.dst = c.src AND c.dst = a.src;
