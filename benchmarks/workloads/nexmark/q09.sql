SELECT id, itemname, description, initialbid, reserve, dateTime, expires, seller, category, extra, auction, bidder,
  price, bid_datetime, bid_extra
FROM (SELECT a.*, b.auction, b.bidder, b.price, b.dateTime AS bid_datetime, b.extra AS bid_extra,
        ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime ASC) AS rownum
      FROM auction a, bid b
      WHERE a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires) q
WHERE rownum <= 1
