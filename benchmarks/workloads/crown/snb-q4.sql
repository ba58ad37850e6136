SELECT t_tagid, t_name, COUNT(DISTINCT m_messageid) AS messages
FROM tag, message_tag, message, knows
WHERE t_tagid = mt_tagid AND mt_messageid = m_messageid AND m_creatorid = k_person2id AND k_person1id % 10 = 0
GROUP BY t_tagid, t_name
