SELECT b.auction, b.price, b.bidder, b.dateTime, b.extra
FROM bid b
JOIN (SELECT MAX(price) AS maxprice, window_end AS dateTime
      FROM TUMBLE(bid, dateTime, INTERVAL 10 SECONDS)
      GROUP BY window_start, window_end) b1
  ON b.price = b1.maxprice
WHERE b.dateTime BETWEEN b1.dateTime - INTERVAL 10 SECONDS AND b1.dateTime
