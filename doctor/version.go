package doctor

import (
	"context"
	"fmt"

	"github.com/pgqueue/pgqueue/migrations"
)

// schemaVersion compares what is installed with what this binary was built for.
func schemaVersion(_ context.Context, x *examination) ([]Finding, error) {
	if x.stateErr != nil {
		return nil, x.stateErr // no right to read it: skipped with that reason
	}
	table := ident(x.o.Schema, "pgqueue_migrations")
	up := fmt.Sprintf("Run migrations.Up, as the owner, for schema %q.", x.o.Schema)
	f := Finding{Severity: Error, Subject: "schema " + x.o.Schema, Fix: up,
		Why: "Workers refuse to start, or statements name what is not there."}
	have, known := x.state.Version, x.state.Latest
	switch {
	case !x.installed:
		f.Summary = "pgqueue is not installed in this schema."
	case !x.state.Exists:
		f.Summary = "The tables are there, but the table with their version is not."
		f.Why = "Nobody knows which migrations were applied; the next one fails, or is applied twice."
		f.Fix = fmt.Sprintf("If no drift- check finds anything, this is version %d: write that down again. Otherwise restore the table from a backup.", known)
		f.FixSQL = []string{
			"CREATE TABLE " + table + " (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL)",
			fmt.Sprintf("INSERT INTO %s (version, dirty) VALUES (%d, false)", table, known),
		}
	case x.state.Dirty:
		f.Summary = fmt.Sprintf("The migration to version %d was begun, and its end was not recorded.", have)
		f.Fix = up + " It looks at what is there, puts the version right and goes on."
	case have < known:
		f.Summary = fmt.Sprintf("The schema has version %d, and this binary needs %d.", have, known)
	case have > known:
		newer := &migrations.NewerSchemaError{Schema: x.o.Schema, Version: have, Latest: known}
		f.Summary = fmt.Sprintf("The schema has version %d, and this binary knows versions up to %d.", have, known)
		f.Why = "A binary works with a schema of its own version and of the next; with later ones its statements may fail."
		f.Fix = "Roll out the newer binary. Leave the schema as it is."
		if newer.Compatible() {
			f.Severity = Info
		}
	default:
		return nil, nil
	}
	return []Finding{f}, nil
}

// readOnlyServer finds out that we are connected to a standby.
func readOnlyServer(_ context.Context, x *examination) ([]Finding, error) {
	if !x.server.Standby {
		return nil, nil
	}
	f := Finding{
		Severity: Info, Subject: "server",
		Summary: "The server is a standby: it takes no writes, and what only the primary knows was not seen.",
		Why:     "Enqueue, claim and completion fail here, and so does LISTEN.",
		Fix: "Nothing, if only reports are meant to run here. Workers and producers connect to the primary: target_session_attrs=read-write " +
			"with all hosts in the connection string. To promote this server while the primary lives splits the data in two: leave that to whoever runs the cluster.",
	}
	// A replica has the roles of its primary, so that their names say nothing about where they connect: it may be well all the same.
	// There is no statement, because whoever executes what a report suggests must not be able to break a healthy cluster with it.
	for _, role := range x.o.Roles {
		for _, purpose := range role.Purposes {
			if purpose != Viewer && purpose != Watcher {
				f.Severity = Warning
			}
		}
	}
	return []Finding{f}, nil
}
