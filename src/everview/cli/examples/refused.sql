-- The best customers of a shop: a LIMIT inside the view, which is refused.
CREATE TABLE orders (id BIGINT NOT NULL, customer BIGINT NOT NULL, total DECIMAL(10, 2));

CREATE MATERIALIZED VIEW best_customers AS
SELECT customer, SUM(total) AS spent FROM orders GROUP BY customer
ORDER BY spent DESC
LIMIT 10;
