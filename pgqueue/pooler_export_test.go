package pgqueue

import "github.com/jackc/pgx/v5/pgxpool"

// Pool is what the client was made with.
func (c *Client) Pool() *pgxpool.Pool { return c.pool }
