WITH around AS (
  SELECT b.attempt_id, b.t_lo_ms AS b_ms, d.t_lo_ms AS d_ms, a.event_id AS first_id, e.event_id AS last_id
  FROM (SELECT * FROM events WHERE type = 'ReducerStart') b
  JOIN (SELECT * FROM events WHERE type = 'ReducerEnd') d ON d.attempt_id = b.attempt_id AND d.t_lo_ms > b.t_lo_ms
  JOIN (SELECT * FROM events WHERE type = 'Balance') a
    ON a.t_hi_ms < b.t_lo_ms AND a.t_hi_ms >= b.t_lo_ms - 60000
  JOIN (SELECT * FROM events WHERE type = 'Balance') e
    ON e.t_hi_ms > d.t_lo_ms AND e.t_hi_ms <= d.t_lo_ms + 60000 AND e.t_hi_ms <= a.t_hi_ms + 600000)
SELECT around.attempt_id, first_id, last_id
FROM around JOIN (SELECT * FROM events WHERE type = 'Imbalance') c ON c.t_hi_ms > b_ms AND c.t_hi_ms < d_ms
GROUP BY around.attempt_id, first_id, last_id HAVING count(*) >= 8
