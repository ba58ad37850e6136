SELECT DISTINCT g2.src AS b, g2.dst AS c
FROM g g1 JOIN g g2 ON g1.dst = g2.src JOIN g g3 ON g2.dst = g3.src
WHERE g3.dst % 10 = 0
