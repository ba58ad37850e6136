SELECT auction, bidder, price, dateTime, extra, DATE_FORMAT(dateTime, 'yyyy-MM-dd') AS dt,
  DATE_FORMAT(dateTime, 'HH:mm') AS hm
FROM bid
