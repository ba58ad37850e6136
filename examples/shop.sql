-- A shop: customers place orders, orders have items. Prices are in cents.
CREATE TABLE customers (id BIGINT NOT NULL, name STRING, city STRING NOT NULL, PRIMARY KEY (id));
CREATE TABLE orders (
  id BIGINT NOT NULL, customer BIGINT NOT NULL, day DATE NOT NULL,
  PRIMARY KEY (id), FOREIGN KEY (customer) REFERENCES customers (id));
CREATE TABLE items (order_id BIGINT NOT NULL, product STRING NOT NULL, price INT NOT NULL, quantity INT NOT NULL);
CREATE TABLE returns (order_id BIGINT NOT NULL, product STRING NOT NULL);

-- What each order is worth.
CREATE MATERIALIZED VIEW order_value AS
SELECT o.id, o.day, SUM(i.price * i.quantity) AS value
FROM orders o JOIN items i ON o.id = i.order_id
GROUP BY o.id, o.day;

-- Revenue of each city.
CREATE MATERIALIZED VIEW revenue_by_city AS
SELECT c.city, SUM(i.price * i.quantity) AS revenue
FROM customers c JOIN orders o ON c.id = o.customer JOIN items i ON o.id = i.order_id
GROUP BY c.city;

-- Customers who have bought something.
CREATE MATERIALIZED VIEW buyers AS
SELECT id, name FROM customers WHERE id IN (SELECT customer FROM orders);

-- Products that were ever ordered or returned.
CREATE MATERIALIZED VIEW products AS
SELECT product FROM items UNION SELECT product FROM returns;
