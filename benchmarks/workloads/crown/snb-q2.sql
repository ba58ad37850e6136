SELECT t_name, t_tagid, m_messageid, k1.k_person1id AS person, k2.k_person1id AS friend, k2.k_person2id AS creator
FROM tag, message_tag, message, knows k1, knows k2
WHERE t_tagid = mt_tagid AND mt_messageid = m_messageid AND m_creatorid = k2.k_person2id
  AND k2.k_person1id = k1.k_person2id AND m_c_replyof IS NULL AND k1.k_person1id % 10 = 0
