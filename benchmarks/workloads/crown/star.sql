SELECT g1.src, COUNT(*) AS n
FROM g g1 JOIN g g2 ON g1.src = g2.src JOIN g g3 ON g1.src = g3.src JOIN g g4 ON g1.src = g4.src
GROUP BY g1.src
