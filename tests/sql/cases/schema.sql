-- The tables of the positive cases: small, with NULLs nearly everywhere.
CREATE TABLE follows (src BIGINT, dst BIGINT);
CREATE TABLE t (k INT, x INT, s STRING, d DATE, v DOUBLE, m DECIMAL(12, 2));
CREATE TABLE u (k BIGINT, y INT, s STRING, d DATE, b BOOLEAN);
CREATE TABLE w (k INT, x INT, at TIMESTAMP);
CREATE TABLE customer (id INT PRIMARY KEY, name STRING NOT NULL, nation INT);
CREATE TABLE orders (id INT, customer INT REFERENCES customer, status STRING CHECK (status IN ('a', 'b')),
                     total DECIMAL(12, 2), day DATE, PRIMARY KEY (id));
CREATE TABLE item (order_id INT, line INT, price DECIMAL(12, 2), discount DECIMAL(4, 2), quantity INT);
CREATE TABLE r (a INT, b INT);
CREATE TABLE db.q (a INT, z INT);
