-- The order book of DBToaster's finance queries: the bids and asks that are open.
CREATE TABLE bids (t DOUBLE NOT NULL, id INT NOT NULL, broker_id INT NOT NULL, volume DOUBLE, price DOUBLE);
CREATE TABLE asks (t DOUBLE NOT NULL, id INT NOT NULL, broker_id INT NOT NULL, volume DOUBLE, price DOUBLE);
