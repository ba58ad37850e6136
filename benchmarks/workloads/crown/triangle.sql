SELECT g1.src AS a, g2.src AS b, g3.src AS c
FROM g g1, g g2, g g3
WHERE g1.dst = g2.src AND g2.dst = g3.src AND g3.dst = g1.src
