CREATE TABLE g (src BIGINT NOT NULL, dst BIGINT NOT NULL);
CREATE TABLE v1 (id BIGINT NOT NULL);
CREATE TABLE v2 (id BIGINT NOT NULL);
CREATE TABLE person (p_personid BIGINT NOT NULL, p_firstname STRING, p_lastname STRING, PRIMARY KEY (p_personid));
CREATE TABLE knows (k_person1id BIGINT NOT NULL, k_person2id BIGINT NOT NULL, k_creationdate TIMESTAMP);
CREATE TABLE message (
  m_messageid BIGINT NOT NULL, m_creationdate TIMESTAMP, m_content STRING, m_creatorid BIGINT NOT NULL,
  m_c_replyof BIGINT, PRIMARY KEY (m_messageid));
CREATE TABLE tag (t_tagid BIGINT NOT NULL, t_name STRING NOT NULL, PRIMARY KEY (t_tagid));
CREATE TABLE message_tag (mt_messageid BIGINT NOT NULL, mt_tagid BIGINT NOT NULL);
