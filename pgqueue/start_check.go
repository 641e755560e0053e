package pgqueue

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// workerRights are what a worker cannot work without: the GRANTs of docs/roles.md less those for reporting itself.
func workerRights() []jobstore.Right {
	rights := []jobstore.Right{{Kind: "schema", Privilege: "USAGE"}}
	on := func(kind, object string, privileges ...string) {
		for _, privilege := range privileges {
			rights = append(rights, jobstore.Right{Kind: kind, Object: object, Privilege: privilege})
		}
	}
	on("table", "jobs", "SELECT", "UPDATE", "DELETE")
	on("table", "history", "SELECT", "INSERT", "DELETE")
	on("table", "queues", "SELECT")
	on("table", "paused_kinds", "SELECT")
	on("table", "pgqueue_migrations", "SELECT")
	for _, function := range []string{"ensure_history", "drop_history", "expire_attention"} {
		on("function", function, "EXECUTE")
	}
	return rights
}

// checkStart tells whether a worker can work with this database: first what the session may do, which needs no right and no
// table, then whether the tables are those that this version knows. What waiting does not mend is a [*StartError].
func (c *Client) checkStart(ctx context.Context, pool *pgxpool.Pool) error {
	if err := c.checkPooler(ctx, pool); err != nil {
		return err
	}
	session, err := c.store.StartCheck(ctx, pool, workerRights())
	if err != nil {
		return fmt.Errorf("schema %q: %w", c.schema, poolerError(err))
	}
	if err := c.judge(session, pool); err != nil {
		return err
	}
	return c.checkSchema(ctx, pool)
}

// judge turns what a session is into the error of a start, or a warning. A standby has no rights of its own to look at.
func (c *Client) judge(session jobstore.Session, pool *pgxpool.Pool) error {
	switch {
	case session.Standby:
		return c.cannotStart(StartStandby, session.Role, nil, "the server is a standby; connect to the primary")
	case session.ReadOnly:
		return c.cannotStart(StartReadOnly, session.Role, nil,
			"default_transaction_read_only is on for the role %q; turn it off for the role, the database or the server", session.Role)
	}
	if setting := badSetting(session, pool.Config().ConnConfig); setting != "" {
		return c.cannotStart(StartSetting, session.Role, nil, "%s for the role %q; see docs/settings.md", setting, session.Role)
	}
	by := map[string][]MissingRight{}
	for _, lack := range session.Lacks {
		by[lack.Problem] = append(by[lack.Problem], MissingRight{Privilege: lack.Privilege, Object: lack.Target})
	}
	if missing := by[jobstore.Missing]; len(missing) > 0 {
		return c.cannotStart(StartMissingRights, session.Role, missing,
			"the role %q lacks %s; docs/roles.md has the GRANTs of a worker", session.Role, inWords(missing))
	}
	if barred := by[jobstore.Barred]; len(barred) > 0 {
		return c.cannotStart(StartRowSecurity, session.Role, barred,
			"row_security is off for the role %q, so that row-level security, which holds for it, makes an error of %s, whatever the policies "+
				"say; turn row_security on for the role, or row-level security off; see docs/settings.md", session.Role, inWords(barred))
	}
	if hidden := by[jobstore.Hidden]; len(hidden) > 0 {
		return c.cannotStart(StartRowSecurity, session.Role, hidden,
			"row-level security hides all rows from the role %q for %s; give it a policy with USING (true), or turn row-level security off",
			session.Role, inWords(hidden))
	}
	if partial := by[jobstore.Partial]; len(partial) > 0 {
		c.logger.Warn("pgqueue: row-level security may hide rows from the worker, which leaves them as they are", "role", session.Role,
			"rights", inWords(partial))
	}
	return nil
}

// badSetting names a setting under which texts would be stored or read wrong, without an error.
func badSetting(session jobstore.Session, config *pgx.ConnConfig) string {
	switch strings.ToUpper(session.Encoding) {
	case "UTF8", "SQL_ASCII": // the second passes bytes on, and only a database of that encoding has it by default
	default:
		return fmt.Sprintf("client_encoding is %s and must be UTF8", session.Encoding)
	}
	switch config.DefaultQueryExecMode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol: // times come, and arrays go, as text
		if !strings.HasPrefix(session.DateStyle, "ISO") {
			return fmt.Sprintf("DateStyle is %s and must be ISO with default_query_exec_mode=%s", session.DateStyle, config.DefaultQueryExecMode)
		}
		if !session.ArrayNulls {
			return fmt.Sprintf("array_nulls is off and must be on with default_query_exec_mode=%s", config.DefaultQueryExecMode)
		}
	}
	return ""
}

// checkSchema tells whether the database has the tables that this version works with: its own, or those of the next version. See
// docs/compatibility.md.
func (c *Client) checkSchema(ctx context.Context, pool *pgxpool.Pool) error {
	state, err := migrations.Status(ctx, pool, c.schema)
	switch {
	case err != nil:
		return fmt.Errorf("look at schema %q: %w", c.schema, poolerError(err))
	case state.Version < migrations.Latest:
		return c.cannotStart(StartSchemaOlder, "", nil, "schema %q is at version %d and this program needs %d; run migrations.Up",
			c.schema, state.Version, migrations.Latest)
	case state.Dirty:
		return c.cannotStart(StartSchemaDirty, "", nil, "schema %q: version %d was left half done; run migrations.Up", c.schema, state.Version)
	case state.Version > migrations.Latest+1:
		return c.cannotStart(StartSchemaNewer, "", nil, "schema %q is at version %d and this program works with %d and %d; roll out the newer one",
			c.schema, state.Version, migrations.Latest, migrations.Latest+1)
	default:
		return nil
	}
}
