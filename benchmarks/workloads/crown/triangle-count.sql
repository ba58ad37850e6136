SELECT COUNT(*) AS triangles
FROM g g1, g g2, g g3
WHERE g1.dst = g2.src AND g2.dst = g3.src AND g3.dst = g1.src
