package outbox

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// Name is the name of a table in its parts: Name{"app", "deliveries"}. Each part is quoted where it is used, so any
// characters will do. A single part is looked up by the session's search_path; give both.
type Name []string

// String returns the name as SQL.
func (n Name) String() string { return pgx.Identifier(n).Sanitize() }

// KeyColumn is one column of a row's key.
type KeyColumn struct {
	Name string
	// Type is the column's type as SQL, such as "bigint" (the default), "uuid", "text", or "app.tenant_id".
	Type string
}

// StatusColumn names the status column and what it holds: texts, labels of an enum, or numbers of an integer type
// written as texts ("0", "1"). All values must differ.
type StatusColumn struct {
	Name       string
	Pending    string // waits for its time; what a producer inserts
	Processing string // is claimed
	Succeeded  string // has ended well
	Failed     string // has ended, because trying again is pointless
	Dead       string // has ended, because its budget is spent
	// Cancelled is where a handler's [runner.CancelWith] ends. Optional: without it such a row ends as Failed, with the code
	// "cancelled".
	Cancelled string
}

// Column is a column with its type.
type Column struct {
	Name string
	Type string // as SQL
}

// Table describes a table of the application's. P is what a handler is given of a row, R what it may return.
//
// The columns of the first group are required, and those of the second are used where they are named. All names are
// column names as they stand in the catalog, unquoted. Times are timestamptz, numbers smallint, integer or bigint.
type Table[P, R any] struct {
	Name Name
	// Key is what identifies a row: one column or several, with a unique index over exactly these. The key of a row must not
	// change while it is claimed.
	Key    []KeyColumn
	Status StatusColumn
	// Attempts counts the claims. Without Failures it is the budget too: then a claim that spent nothing, because no handler has
	// seen the row or because it was snoozed, is taken off again, and a handler that a stop has interrupted has spent one.
	Attempts string
	// NextAttempt is when a pending row is due; NULL means never.
	NextAttempt string
	// AttemptedAt is when the row was last claimed. It must allow NULL, which is how a row stands that was handed back
	// without having been started, and, without Token, have the full precision of microseconds, because it is a part of the fence.
	AttemptedAt string
	// CreatedAt must not change in a row's life: it is a part of the [IdempotencyKey].
	CreatedAt string

	// Failures counts the attempts that failed, and makes the budget count these instead of Attempts: then a row that was
	// claimed and handed back any number of times has spent nothing. A lease that runs out counts as a failure.
	Failures string
	// MaxAttempts is the budget of each row, where it is not NULL, in place of [Config].MaxAttempts.
	MaxAttempts string
	// Priority is the class of a row, an integer; see [Config].Classes.
	Priority string
	// Kind is the kind of a row, a text or an enum; see [Config].Kinds. Without it all rows are of one kind.
	Kind string
	// LeaseUntil is when a claim ends. With it leases are short and renewed while handlers run, so a killed process costs
	// its rows a lease and a tick at most, 45 s by default. Without it a claim is stale when AttemptedAt is older than [Config].Lease, which must
	// cover the worst case of a batch.
	LeaseUntil string
	// Token is a uuid or text column that gets a fresh random value with each claim, and takes AttemptedAt's part in the fence.
	Token string
	// ErrorCode and LastError, both text, get the code and the message of the latest failure; see [runner.Safe]. Without
	// ErrorCode the message begins with the code.
	ErrorCode, LastError string
	// FinishedAt gets the time at which the row ended.
	FinishedAt string
	// Result gets what a handler returned, in the statement that ends the row. Type is "jsonb" (the default), "json", or the
	// type that Encode writes for.
	Result Column
	// Encode writes a result as text for the Result column. Default: JSON, or the result itself where R is string and
	// Type is "text".
	Encode func(R) (string, error)

	// Columns are what a handler reads, as SQL, in the order or with the names that Scan expects: the row is t, and what Join
	// adds has the names given there: {"t.id", "n.body", "n.address AS recipient"}.
	Columns []string
	// Join is what the handler reads besides the row, as SQL: "JOIN app.notifications n ON n.id = t.notification_id".
	// A row for which it finds nothing, or several, is a failed attempt with the code "undecodable".
	Join string
	// Scan makes a P of Columns, like [pgx.RowToStructByName]. An error, or a panic, fails the attempt of that row alone.
	Scan func(pgx.CollectableRow) (P, error)

	// IdempotencyKey is an SQL expression over t, of type text, that replaces the default: table, key and creation time.
	IdempotencyKey string
	// Unique lists columns over which the producer relies on a unique index, such as a deduplication key. [Queue.Check] warns
	// where there is none.
	Unique [][]string
}

// ConfigError says which field of a [Table] or [Config] cannot work, and why.
type ConfigError struct {
	Field   string // such as "Table.Status.Dead" or "Lease"
	Message string
}

// Error returns the field and the reason.
func (e *ConfigError) Error() string { return "outbox: " + e.Field + ": " + e.Message }

func refuse(field, format string, args ...any) error {
	return &ConfigError{Field: field, Message: fmt.Sprintf(format, args...)}
}

// typeText is what a type may look like: words, quoted names, dots, a precision, brackets. It keeps slips out, not attackers:
// whoever writes the description writes SQL.
var typeText = regexp.MustCompile(`^("([^"\x00]|"")+"|[A-Za-z_][A-Za-z0-9_ ]*)(\.("([^"\x00]|"")+"|[A-Za-z_][A-Za-z0-9_]*))?(\([0-9, ]+\))?$`)

// check validates what can be known without a database and fills in defaults.
func (t *Table[P, R]) check() error {
	if len(t.Name) < 1 || len(t.Name) > 2 {
		return refuse("Table.Name", "must have one or two parts, schema and table, not %d", len(t.Name))
	}
	for _, part := range t.Name {
		if err := checkName("Table.Name", part); err != nil {
			return err
		}
	}
	if err := t.checkKey(); err != nil {
		return err
	}
	if err := t.checkColumns(); err != nil {
		return err
	}
	if err := t.Status.check(); err != nil {
		return err
	}
	if len(t.Columns) == 0 {
		return refuse("Table.Columns", "must name what the handler reads")
	}
	if t.Scan == nil {
		return refuse("Table.Scan", "must not be nil")
	}
	for i, columns := range t.Unique {
		if len(columns) == 0 {
			return refuse(fmt.Sprintf("Table.Unique[%d]", i), "must name a column")
		}
	}
	return nil
}

func (t *Table[P, R]) checkKey() error {
	t.Key = slices.Clone(t.Key)
	if len(t.Key) == 0 {
		return refuse("Table.Key", "must name at least one column")
	}
	for i := range t.Key {
		k := &t.Key[i]
		if k.Type == "" {
			k.Type = "bigint"
		}
		if !typeText.MatchString(k.Type) {
			return refuse(fmt.Sprintf("Table.Key[%d].Type", i), "%q does not look like a type", k.Type)
		}
	}
	if t.Result.Name != "" {
		if t.Result.Type == "" {
			t.Result.Type = "jsonb"
		}
		if !typeText.MatchString(t.Result.Type) {
			return refuse("Table.Result.Type", "%q does not look like a type", t.Result.Type)
		}
	}
	return nil
}

// used are the columns that the package reads or writes itself, each with the field that names it.
type used struct {
	field, name string
	required    bool
	kind        columnKind
}

// columnKind is what a column must be.
type columnKind uint8

const (
	kindKey columnKind = iota
	kindStatus
	kindNumber
	kindTime
	kindText
	kindToken
	kindResult
	kindAny
)

func (t *Table[P, R]) uses() []used {
	var all []used
	for i, k := range t.Key {
		all = append(all, used{fmt.Sprintf("Table.Key[%d]", i), k.Name, true, kindKey})
	}
	return append(all,
		used{"Table.Status.Name", t.Status.Name, true, kindStatus},
		used{"Table.Attempts", t.Attempts, true, kindNumber},
		used{"Table.NextAttempt", t.NextAttempt, true, kindTime},
		used{"Table.AttemptedAt", t.AttemptedAt, true, kindTime},
		used{"Table.CreatedAt", t.CreatedAt, true, kindTime},
		used{"Table.Failures", t.Failures, false, kindNumber},
		used{"Table.MaxAttempts", t.MaxAttempts, false, kindNumber},
		used{"Table.Priority", t.Priority, false, kindNumber},
		used{"Table.Kind", t.Kind, false, kindAny},
		used{"Table.LeaseUntil", t.LeaseUntil, false, kindTime},
		used{"Table.Token", t.Token, false, kindToken},
		used{"Table.ErrorCode", t.ErrorCode, false, kindText},
		used{"Table.LastError", t.LastError, false, kindText},
		used{"Table.FinishedAt", t.FinishedAt, false, kindTime},
		used{"Table.Result", t.Result.Name, false, kindResult},
	)
}

func (t *Table[P, R]) checkColumns() error {
	seen := map[string]string{}
	for _, c := range t.uses() {
		if c.name == "" {
			if c.required {
				return refuse(c.field, "must name a column")
			}
			continue
		}
		if err := checkName(c.field, c.name); err != nil {
			return err
		}
		// A producer's kind or creation time may be a part of the key; what is written here may not.
		if other, twice := seen[c.name]; twice && c.kind != kindAny && c.field != "Table.CreatedAt" {
			return refuse(c.field, "names column %q, which %s is", c.name, other)
		}
		seen[c.name] = c.field
	}
	return nil
}

func (s StatusColumn) check() error {
	seen := map[string]string{}
	for _, v := range []struct {
		field, value string
		required     bool
	}{{"Pending", s.Pending, true}, {"Processing", s.Processing, true}, {"Succeeded", s.Succeeded, true}, {"Failed", s.Failed, true},
		{"Dead", s.Dead, true}, {"Cancelled", s.Cancelled, false}} {
		field := "Table.Status." + v.field
		if v.value == "" && !v.required {
			continue
		}
		if v.value == "" || strings.ContainsRune(v.value, 0) || !utf8.ValidString(v.value) {
			return refuse(field, "must be a value of the status column, not %q", v.value)
		}
		if other, twice := seen[v.value]; twice {
			return refuse(field, "is %q, as %s is: failed and dead are different answers for the person who looks", v.value, other)
		}
		seen[v.value] = v.field
	}
	return nil
}

// maxName is the longest name that Postgres keeps whole.
const maxName = 63

func checkName(field, name string) error {
	switch {
	case name == "" || strings.ContainsRune(name, 0) || !utf8.ValidString(name):
		return refuse(field, "%q cannot be a name", name)
	case len(name) > maxName:
		return refuse(field, "%q is longer than %d bytes, and Postgres would cut it", name, maxName)
	}
	return nil
}
