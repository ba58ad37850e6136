SELECT q.category, AVG(q.final) AS avg_final
FROM (SELECT MAX(b.price) AS final, a.category
      FROM auction a, bid b
      WHERE a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
      GROUP BY a.id, a.category) q
GROUP BY q.category
