package pgqueue

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
)

// checkSchema tells whether the database has the tables that this version works with.
func (c *Client) checkSchema(ctx context.Context, pool *pgxpool.Pool) error {
	state, err := migrations.Status(ctx, pool, c.schema)
	switch {
	case err != nil:
		return fmt.Errorf("look at schema %q: %w", c.schema, err)
	case state.Version < migrations.Latest:
		return fmt.Errorf("schema %q is at version %d and this program needs %d; run migrations.Up: %w",
			c.schema, state.Version, migrations.Latest, ErrSchema)
	case state.Dirty:
		return fmt.Errorf("schema %q: version %d was left half done; run migrations.Up: %w", c.schema, state.Version, ErrSchema)
	default:
		return nil // a newer schema works with this version too; see docs/compatibility.md
	}
}
