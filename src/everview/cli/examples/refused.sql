-- A sample of a shop's orders: chance inside the view, which is refused.
CREATE TABLE orders (id BIGINT NOT NULL, customer BIGINT NOT NULL, total DECIMAL(10, 2));

CREATE MATERIALIZED VIEW sampled_orders AS
SELECT id, customer, total FROM orders
WHERE total > 100
  AND rand() < 0.1;
