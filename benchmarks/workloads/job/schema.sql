-- The tables of the Internet Movie Database that the Join Order Benchmark reads.
CREATE TABLE name (
  id INT NOT NULL, name STRING NOT NULL, imdb_index STRING, imdb_id INT, gender STRING, name_pcode_cf STRING,
  name_pcode_nf STRING, surname_pcode STRING, md5sum STRING, PRIMARY KEY (id));
CREATE TABLE company_name (
  id INT NOT NULL, name STRING NOT NULL, country_code STRING, imdb_id INT, name_pcode_nf STRING,
  name_pcode_sf STRING, md5sum STRING, PRIMARY KEY (id));
CREATE TABLE keyword (
  id INT NOT NULL, keyword STRING NOT NULL, phonetic_code STRING, PRIMARY KEY (id));
CREATE TABLE char_name (
  id INT NOT NULL, name STRING NOT NULL, imdb_index STRING, imdb_id INT, name_pcode_nf STRING,
  surname_pcode STRING, md5sum STRING, PRIMARY KEY (id));
CREATE TABLE kind_type (
  id INT NOT NULL, kind STRING NOT NULL, PRIMARY KEY (id));
CREATE TABLE company_type (
  id INT NOT NULL, kind STRING NOT NULL, PRIMARY KEY (id));
CREATE TABLE info_type (
  id INT NOT NULL, info STRING NOT NULL, PRIMARY KEY (id));
CREATE TABLE role_type (
  id INT NOT NULL, role STRING NOT NULL, PRIMARY KEY (id));
CREATE TABLE comp_cast_type (
  id INT NOT NULL, kind STRING NOT NULL, PRIMARY KEY (id));
CREATE TABLE link_type (
  id INT NOT NULL, link STRING NOT NULL, PRIMARY KEY (id));
CREATE TABLE title (
  id INT NOT NULL, title STRING NOT NULL, imdb_index STRING, kind_id INT NOT NULL, production_year INT,
  imdb_id INT, phonetic_code STRING, episode_of_id INT, season_nr INT, episode_nr INT, series_years STRING,
  md5sum STRING, PRIMARY KEY (id), FOREIGN KEY (kind_id) REFERENCES kind_type (id) NOT ENFORCED,
  FOREIGN KEY (episode_of_id) REFERENCES title (id) NOT ENFORCED);
CREATE TABLE cast_info (
  id INT NOT NULL, person_id INT NOT NULL, movie_id INT NOT NULL, person_role_id INT, note STRING, nr_order INT,
  role_id INT NOT NULL, PRIMARY KEY (id), FOREIGN KEY (person_id) REFERENCES name (id) NOT ENFORCED,
  FOREIGN KEY (movie_id) REFERENCES title (id) NOT ENFORCED,
  FOREIGN KEY (person_role_id) REFERENCES char_name (id) NOT ENFORCED,
  FOREIGN KEY (role_id) REFERENCES role_type (id) NOT ENFORCED);
CREATE TABLE movie_companies (
  id INT NOT NULL, movie_id INT NOT NULL, company_id INT NOT NULL, company_type_id INT NOT NULL, note STRING,
  PRIMARY KEY (id), FOREIGN KEY (movie_id) REFERENCES title (id) NOT ENFORCED,
  FOREIGN KEY (company_id) REFERENCES company_name (id) NOT ENFORCED,
  FOREIGN KEY (company_type_id) REFERENCES company_type (id) NOT ENFORCED);
CREATE TABLE movie_info (
  id INT NOT NULL, movie_id INT NOT NULL, info_type_id INT NOT NULL, info STRING NOT NULL, note STRING,
  PRIMARY KEY (id), FOREIGN KEY (movie_id) REFERENCES title (id) NOT ENFORCED,
  FOREIGN KEY (info_type_id) REFERENCES info_type (id) NOT ENFORCED);
CREATE TABLE movie_info_idx (
  id INT NOT NULL, movie_id INT NOT NULL, info_type_id INT NOT NULL, info STRING NOT NULL, note STRING,
  PRIMARY KEY (id), FOREIGN KEY (movie_id) REFERENCES title (id) NOT ENFORCED,
  FOREIGN KEY (info_type_id) REFERENCES info_type (id) NOT ENFORCED);
CREATE TABLE movie_keyword (
  id INT NOT NULL, movie_id INT NOT NULL, keyword_id INT NOT NULL, PRIMARY KEY (id),
  FOREIGN KEY (movie_id) REFERENCES title (id) NOT ENFORCED,
  FOREIGN KEY (keyword_id) REFERENCES keyword (id) NOT ENFORCED);
CREATE TABLE movie_link (
  id INT NOT NULL, movie_id INT NOT NULL, linked_movie_id INT NOT NULL, link_type_id INT NOT NULL,
  PRIMARY KEY (id), FOREIGN KEY (movie_id) REFERENCES title (id) NOT ENFORCED,
  FOREIGN KEY (linked_movie_id) REFERENCES title (id) NOT ENFORCED,
  FOREIGN KEY (link_type_id) REFERENCES link_type (id) NOT ENFORCED);
CREATE TABLE person_info (
  id INT NOT NULL, person_id INT NOT NULL, info_type_id INT NOT NULL, info STRING NOT NULL, note STRING,
  PRIMARY KEY (id), FOREIGN KEY (person_id) REFERENCES name (id) NOT ENFORCED,
  FOREIGN KEY (info_type_id) REFERENCES info_type (id) NOT ENFORCED);
CREATE TABLE complete_cast (
  id INT NOT NULL, movie_id INT, subject_id INT NOT NULL, status_id INT NOT NULL, PRIMARY KEY (id),
  FOREIGN KEY (movie_id) REFERENCES title (id) NOT ENFORCED,
  FOREIGN KEY (subject_id) REFERENCES comp_cast_type (id) NOT ENFORCED,
  FOREIGN KEY (status_id) REFERENCES comp_cast_type (id) NOT ENFORCED);
CREATE TABLE aka_name (
  id INT NOT NULL, person_id INT NOT NULL, name STRING NOT NULL, imdb_index STRING, name_pcode_cf STRING,
  name_pcode_nf STRING, surname_pcode STRING, md5sum STRING, PRIMARY KEY (id),
  FOREIGN KEY (person_id) REFERENCES name (id) NOT ENFORCED);
CREATE TABLE aka_title (
  id INT NOT NULL, movie_id INT NOT NULL, title STRING NOT NULL, imdb_index STRING, kind_id INT NOT NULL,
  production_year INT, phonetic_code STRING, episode_of_id INT, season_nr INT, episode_nr INT, note STRING,
  md5sum STRING, PRIMARY KEY (id), FOREIGN KEY (movie_id) REFERENCES title (id) NOT ENFORCED,
  FOREIGN KEY (kind_id) REFERENCES kind_type (id) NOT ENFORCED,
  FOREIGN KEY (episode_of_id) REFERENCES title (id) NOT ENFORCED);
