SELECT seller, AVG(final) OVER (
    PARTITION BY seller ORDER BY dateTime ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS avg_final
FROM (SELECT a.id, a.seller, b.price AS final, b.dateTime,
        ROW_NUMBER() OVER (PARTITION BY a.id, a.seller ORDER BY b.price DESC) AS rownum
      FROM auction AS a, bid AS b
      WHERE a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires) q
WHERE rownum <= 1
