WITH told AS (
  SELECT a.event_id AS first_id, c.event_id AS last_id, m.period_ms
  FROM (SELECT * FROM events WHERE type = 'JobStart') a
  JOIN (SELECT * FROM events WHERE type = 'JobEnd') c
    ON a.job_id = c.job_id AND (c.t_lo_ms, c.source_seq) > (a.t_lo_ms, a.source_seq)
   AND c.t_lo_ms - a.t_lo_ms <= 86400000
  JOIN (SELECT * FROM events WHERE type = 'Reducer') m
    ON m.job_id = a.job_id AND (m.t_lo_ms, m.source_seq) > (a.t_lo_ms, a.source_seq)
   AND (m.t_lo_ms, m.source_seq) < (c.t_lo_ms, c.source_seq))
SELECT first_id, last_id, avg(period_ms) AS avg_ms, max(period_ms) AS max_ms
FROM told GROUP BY first_id, last_id
