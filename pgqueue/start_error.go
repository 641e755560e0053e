package pgqueue

import (
	"errors"
	"fmt"
	"strings"
)

// ErrReadOnly means that the database takes no writes from this session: it is a standby, or default_transaction_read_only is
// on. A start returns it in a [*StartError]; an enqueue returns it together with Postgres's own error, 25006.
var ErrReadOnly = errors.New("the session is read-only")

// StartReason is why a worker was not started.
type StartReason string

// The reasons of a [StartError].
const (
	// StartSchemaOlder and StartSchemaDirty: run migrations.Up. The first also stands for a schema that is not there.
	StartSchemaOlder StartReason = "schema_older"
	StartSchemaDirty StartReason = "schema_dirty"
	// StartSchemaNewer: the schema is more than one version ahead. Roll out the newer binary.
	StartSchemaNewer StartReason = "schema_newer"
	// StartMissingRights: the role lacks GRANTs of docs/roles.md; StartError.Rights has them.
	StartMissingRights StartReason = "missing_rights"
	// StartRowSecurity: row-level security lets the role see or write no rows, or the setting row_security, which is off, makes an
	// error of each statement that it holds for; StartError.Rights has the tables.
	StartRowSecurity StartReason = "row_security"
	// StartStandby: the server is a standby, and was not promoted within half a minute.
	StartStandby StartReason = "standby"
	// StartReadOnly: default_transaction_read_only is on.
	StartReadOnly StartReason = "read_only"
	// StartSetting: a setting under which what is stored, or read, would not be what was meant; see docs/settings.md.
	StartSetting StartReason = "setting"
)

// MissingRight is a right that the role of a worker does not have.
type MissingRight struct {
	Privilege string // "UPDATE"
	Object    string // "table pgqueue.jobs", quoted as in SQL
}

// StartError says why [Worker.Run] or [Client.Drain] did not start: something about the database that waiting does not mend.
// errors.Is tells [ErrSchema] and [ErrReadOnly] where that is the reason.
type StartError struct {
	Reason StartReason
	Schema string
	Role   string         // whose session it was; empty if the reason has nothing to do with it
	Rights []MissingRight // for the reasons that are about rights

	message string
}

// Error says what is wrong and what to do.
func (e *StartError) Error() string { return e.message }

// Unwrap gives [ErrSchema], [ErrReadOnly], or nothing.
func (e *StartError) Unwrap() error {
	switch e.Reason {
	case StartSchemaOlder, StartSchemaDirty, StartSchemaNewer:
		return ErrSchema
	case StartStandby, StartReadOnly:
		return ErrReadOnly
	}
	return nil
}

// cannotStart makes a StartError. Its message ends with the sentinel's, if there is one.
func (c *Client) cannotStart(reason StartReason, role string, rights []MissingRight, format string, args ...any) *StartError {
	e := &StartError{Reason: reason, Schema: c.schema, Role: role, Rights: rights, message: fmt.Sprintf(format, args...)}
	if sentinel := e.Unwrap(); sentinel != nil {
		e.message += ": " + sentinel.Error()
	}
	return e
}

// inWords lists rights, those on one object together: "SELECT, UPDATE on table pgqueue.jobs; USAGE on schema pgqueue".
func inWords(rights []MissingRight) string {
	var objects []string
	privileges := map[string][]string{}
	for _, right := range rights {
		if privileges[right.Object] == nil {
			objects = append(objects, right.Object)
		}
		privileges[right.Object] = append(privileges[right.Object], right.Privilege)
	}
	for i, object := range objects {
		objects[i] = strings.Join(privileges[object], ", ") + " on " + object
	}
	return strings.Join(objects, "; ")
}
