WITH pulls AS (
  SELECT a.attempt_id, a.event_id AS first_id, b.event_id AS last_id, b.period_ms, b.bytes,
         count(*) OVER so_far AS n_pulls,
         avg(b.period_ms) OVER (PARTITION BY a.event_id ORDER BY b.t_lo_ms, b.source_seq
                                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS avg_before_ms
  FROM (SELECT * FROM events WHERE type = 'ReducerStart') a
  JOIN (SELECT * FROM events WHERE type = 'DataPull') b
    ON b.attempt_id = a.attempt_id AND (b.t_lo_ms, b.source_seq) > (a.t_lo_ms, a.source_seq)
   AND b.t_lo_ms - a.t_lo_ms <= 21600000
  WINDOW so_far AS (PARTITION BY a.event_id ORDER BY b.t_lo_ms, b.source_seq
                    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW))
SELECT * FROM pulls WHERE n_pulls > 3 AND period_ms >= 3000 AND period_ms > 3 * avg_before_ms
