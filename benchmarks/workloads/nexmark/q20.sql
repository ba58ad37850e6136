SELECT auction, bidder, price, channel, url, b.dateTime, b.extra, itemname, description, initialbid, reserve,
  a.dateTime AS auction_datetime, expires, seller, category, a.extra AS auction_extra
FROM bid AS b INNER JOIN auction AS a ON b.auction = a.id
WHERE a.category = 10
