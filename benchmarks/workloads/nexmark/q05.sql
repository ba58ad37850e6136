SELECT auctionbids.auction, auctionbids.num
FROM (SELECT auction, COUNT(*) AS num, window_start AS starttime, window_end AS endtime
      FROM HOP(bid, dateTime, INTERVAL 2 SECONDS, INTERVAL 10 SECONDS)
      GROUP BY auction, window_start, window_end) AS auctionbids
JOIN (SELECT MAX(countbids.num) AS maxn, countbids.starttime, countbids.endtime
      FROM (SELECT COUNT(*) AS num, window_start AS starttime, window_end AS endtime
            FROM HOP(bid, dateTime, INTERVAL 2 SECONDS, INTERVAL 10 SECONDS)
            GROUP BY auction, window_start, window_end) AS countbids
      GROUP BY countbids.starttime, countbids.endtime) AS maxbids
  ON auctionbids.starttime = maxbids.starttime AND auctionbids.endtime = maxbids.endtime
    AND auctionbids.num >= maxbids.maxn
