WITH queued AS (
  SELECT a.job_id, a.t_lo_ms AS started_ms, b.event_id AS last_id, b.t_lo_ms AS at_ms,
         sum(b.size_bytes) OVER (PARTITION BY a.event_id ORDER BY b.t_lo_ms, b.source_seq
                                 ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS queued_bytes
  FROM (SELECT * FROM events WHERE type = 'JobStart') a
  JOIN (SELECT * FROM events WHERE type = 'DataIO') b
    ON b.job_id = a.job_id AND (b.t_lo_ms, b.source_seq) > (a.t_lo_ms, a.source_seq)
   AND b.t_lo_ms - a.t_lo_ms <= 86400000)
SELECT * FROM queued WHERE queued_bytes > -20000000
