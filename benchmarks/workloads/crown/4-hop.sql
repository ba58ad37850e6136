SELECT g1.src AS a, g1.dst AS b, g2.dst AS c, g3.dst AS d, g4.dst AS e
FROM g g1 JOIN g g2 ON g1.dst = g2.src JOIN g g3 ON g2.dst = g3.src JOIN g g4 ON g3.dst = g4.src
WHERE g4.dst % 10 = 0
