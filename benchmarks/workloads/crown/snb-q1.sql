SELECT p_personid, p_firstname, p_lastname, m_messageid, m_content, m_creationdate, k_person1id
FROM person JOIN message ON p_personid = m_creatorid JOIN knows ON k_person2id = p_personid
