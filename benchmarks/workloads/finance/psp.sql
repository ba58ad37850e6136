SELECT SUM(a.price - b.price) AS psp
FROM bids b, asks a
WHERE b.volume > 0.0001D * (SELECT SUM(b1.volume) FROM bids b1)
  AND a.volume > 0.0001D * (SELECT SUM(a1.volume) FROM asks a1)
