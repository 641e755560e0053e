package pgqueue

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// serverError finds what Postgres, or a pooler in its place, said in err: the code and the message, empty where neither said anything. Drivers of database/sql have types of
// their own, which share the method SQLState.
func serverError(err error) (code, message string) {
	var fromPgx *pgconn.PgError
	if errors.As(err, &fromPgx) {
		return fromPgx.Code, fromPgx.Message
	}
	var fromServer interface {
		error
		SQLState() string
	}
	if errors.As(err, &fromServer) {
		return fromServer.SQLState(), fromServer.Error()
	}
	return "", ""
}
