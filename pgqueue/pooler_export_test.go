package pgqueue

import "github.com/jackc/pgx/v5/pgxpool"

// Pool is what the client was made with.
func (c *Client) Pool() *pgxpool.Pool { return c.pool }

// PoolerError explains an error that a pooler may have caused.
func PoolerError(err error) error { return poolerError(err) }
