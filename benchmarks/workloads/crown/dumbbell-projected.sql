SELECT DISTINCT g4.src AS a, g4.dst AS d
FROM g g1, g g2, g g3, g g4, g g5, g g6, g g7
WHERE g1.dst = g2.src AND g2.dst = g3.src AND g3.dst = g1.src
  AND g4.src = g1.src AND g4.dst = g5.src
  AND g5.dst = g6.src AND g6.dst = g7.src AND g7.dst = g5.src
