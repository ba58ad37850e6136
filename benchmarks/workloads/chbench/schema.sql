-- The tables of TPC-C, and supplier, nation and region of TPC-H, as CH-benCHmark has them.
CREATE TABLE region (r_regionkey INT NOT NULL, r_name STRING NOT NULL, r_comment STRING, PRIMARY KEY (r_regionkey));
CREATE TABLE nation (
  n_nationkey INT NOT NULL, n_name STRING NOT NULL, n_regionkey INT NOT NULL, n_comment STRING,
  PRIMARY KEY (n_nationkey), FOREIGN KEY (n_regionkey) REFERENCES region (r_regionkey) NOT ENFORCED);
CREATE TABLE supplier (
  su_suppkey INT NOT NULL, su_name STRING NOT NULL, su_address STRING NOT NULL, su_nationkey INT NOT NULL,
  su_phone STRING NOT NULL, su_acctbal DECIMAL(12, 2) NOT NULL, su_comment STRING NOT NULL, PRIMARY KEY (su_suppkey),
  FOREIGN KEY (su_nationkey) REFERENCES nation (n_nationkey) NOT ENFORCED);
CREATE TABLE warehouse (
  w_id INT NOT NULL, w_name STRING, w_street_1 STRING, w_street_2 STRING, w_city STRING, w_state STRING, w_zip STRING,
  w_tax DECIMAL(4, 4), w_ytd DECIMAL(12, 2), PRIMARY KEY (w_id));
CREATE TABLE district (
  d_w_id INT NOT NULL, d_id INT NOT NULL, d_name STRING, d_street_1 STRING, d_street_2 STRING, d_city STRING,
  d_state STRING, d_zip STRING, d_tax DECIMAL(4, 4), d_ytd DECIMAL(12, 2), d_next_o_id INT, PRIMARY KEY (d_w_id, d_id),
  FOREIGN KEY (d_w_id) REFERENCES warehouse (w_id) NOT ENFORCED);
CREATE TABLE item (
  i_id INT NOT NULL, i_im_id INT, i_name STRING, i_price DECIMAL(5, 2), i_data STRING, PRIMARY KEY (i_id));
CREATE TABLE stock (
  s_w_id INT NOT NULL, s_i_id INT NOT NULL, s_quantity INT, s_ytd INT, s_order_cnt INT, s_remote_cnt INT,
  s_data STRING, PRIMARY KEY (s_w_id, s_i_id), FOREIGN KEY (s_w_id) REFERENCES warehouse (w_id) NOT ENFORCED,
  FOREIGN KEY (s_i_id) REFERENCES item (i_id) NOT ENFORCED);
CREATE TABLE customer (
  c_w_id INT NOT NULL, c_d_id INT NOT NULL, c_id INT NOT NULL, c_first STRING, c_middle STRING, c_last STRING,
  c_street_1 STRING, c_street_2 STRING, c_city STRING, c_state STRING, c_zip STRING, c_phone STRING,
  c_since TIMESTAMP, c_credit STRING, c_credit_lim DECIMAL(12, 2), c_discount DECIMAL(4, 4), c_balance DECIMAL(12, 2),
  c_ytd_payment DECIMAL(12, 2), c_payment_cnt INT, c_delivery_cnt INT, c_data STRING,
  PRIMARY KEY (c_w_id, c_d_id, c_id),
  FOREIGN KEY (c_w_id, c_d_id) REFERENCES district (d_w_id, d_id) NOT ENFORCED);
CREATE TABLE orders (
  o_w_id INT NOT NULL, o_d_id INT NOT NULL, o_id INT NOT NULL, o_c_id INT NOT NULL, o_entry_d TIMESTAMP,
  o_carrier_id INT, o_ol_cnt INT, o_all_local INT, PRIMARY KEY (o_w_id, o_d_id, o_id),
  FOREIGN KEY (o_w_id, o_d_id, o_c_id) REFERENCES customer (c_w_id, c_d_id, c_id) NOT ENFORCED);
CREATE TABLE neworder (
  no_w_id INT NOT NULL, no_d_id INT NOT NULL, no_o_id INT NOT NULL, PRIMARY KEY (no_w_id, no_d_id, no_o_id),
  FOREIGN KEY (no_w_id, no_d_id, no_o_id) REFERENCES orders (o_w_id, o_d_id, o_id) NOT ENFORCED);
CREATE TABLE orderline (
  ol_w_id INT NOT NULL, ol_d_id INT NOT NULL, ol_o_id INT NOT NULL, ol_number INT NOT NULL, ol_i_id INT,
  ol_supply_w_id INT, ol_delivery_d TIMESTAMP, ol_quantity INT, ol_amount DECIMAL(6, 2), ol_dist_info STRING,
  PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number),
  FOREIGN KEY (ol_w_id, ol_d_id, ol_o_id) REFERENCES orders (o_w_id, o_d_id, o_id) NOT ENFORCED,
  FOREIGN KEY (ol_supply_w_id, ol_i_id) REFERENCES stock (s_w_id, s_i_id) NOT ENFORCED);
