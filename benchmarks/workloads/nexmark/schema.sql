-- The streams of Nexmark as tables, and the side input of q13, joined as it is now.
CREATE TABLE person (
  id BIGINT NOT NULL, name STRING, emailaddress STRING, creditcard STRING, city STRING, state STRING,
  dateTime TIMESTAMP, extra STRING, PRIMARY KEY (id));
CREATE TABLE auction (
  id BIGINT NOT NULL, itemname STRING, description STRING, initialbid BIGINT, reserve BIGINT, dateTime TIMESTAMP,
  expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING, PRIMARY KEY (id),
  FOREIGN KEY (seller) REFERENCES person (id) NOT ENFORCED);
CREATE TABLE bid (
  auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP, extra STRING,
  FOREIGN KEY (auction) REFERENCES auction (id) NOT ENFORCED,
  FOREIGN KEY (bidder) REFERENCES person (id) NOT ENFORCED);
CREATE TABLE side_input (key BIGINT NOT NULL, value STRING, PRIMARY KEY (key));
