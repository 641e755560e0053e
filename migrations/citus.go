package migrations

import (
	_ "embed"
)

//go:embed citus/citus.sql
var citusTemplate string

// CitusSQL returns the SQL that distributes the tables of one schema ("" = [DefaultSchema]) over the nodes of a Citus cluster, by queue:
// jobs and history together, the settings of queues as a copy on each node. It also replaces those functions that Citus could not plan.
//
// It is no migration with a number. Send it to the coordinator as one message (pgx: Exec without arguments; psql: -1 -f), as the owner of
// the schema, after [Up], and again after each later Up: what is distributed already is left alone. Clients are then made with
// pgqueue.WithCitus. docs/scaling.md says what it is good for. The error is a [*SchemaError].
func CitusSQL(schema string) (string, error) {
	schema, err := schemaOrDefault(schema)
	if err != nil {
		return "", err
	}
	return newReplacer(schema).Replace(citusTemplate), nil
}
