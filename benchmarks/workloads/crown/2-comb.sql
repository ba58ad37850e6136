SELECT g1.src AS a, g1.dst AS b, g2.dst AS c, g3.dst AS d
FROM v1 JOIN g g1 ON v1.id = g1.src JOIN g g2 ON g1.dst = g2.src JOIN g g3 ON g2.dst = g3.src JOIN v2 ON g3.dst = v2.id
