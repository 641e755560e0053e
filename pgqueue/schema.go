package pgqueue

import (
	"errors"
	"fmt"
	"strings"
)

// schemaError says so where an error of Postgres means that the schema is not there, or an older one: that its tables, columns
// or functions are missing.
func (c *Client) schemaError(err error) error {
	code, _ := serverError(err)
	switch code {
	case "3F000", "42P01", "42703", "42883":
		return fmt.Errorf("schema %q: %w; run migrations.Up: %w", c.schema, ErrSchema, err)
	}
	return err
}

// enqueueError is schemaError for an enqueue on q. It also says what else about the database an enqueue can fail of, and lets go
// of the connections to a server that is no primary any more.
func (c *Client) enqueueError(q Querier, err error) error {
	if err = poolerError(err); errors.Is(err, ErrPooler) {
		return err
	}
	code, message := serverError(err)
	switch code {
	case codeReadOnly:
		if q == Querier(c.pool) {
			c.stale.refused()
		}
		return fmt.Errorf("%w, of a standby or by default_transaction_read_only: %w", ErrReadOnly, err)
	case codeForbidden:
		return fmt.Errorf("schema %q: the role may not do this; docs/roles.md has the GRANTs of a producer, and row-level security needs a policy: %w",
			c.schema, err)
	case codeNotSupported:
		if strings.Contains(message, "non-IMMUTABLE functions") {
			return fmt.Errorf("the tables are distributed by Citus, so the client has to be made with WithCitus: %w", err)
		}
	}
	return c.schemaError(err)
}

const (
	codeReadOnly  = "25006"
	codeForbidden = "42501"

	codeNotSupported = "0A000"
)
