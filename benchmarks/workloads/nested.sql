SELECT r1.a, r2.b, r2.c, r3.d FROM r1 JOIN r2 ON r1.b = r2.b JOIN r3 ON r2.c = r3.c
