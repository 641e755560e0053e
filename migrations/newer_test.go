package migrations_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue"
)

// C91: a binary of today finds the schema of the next version, and of the one after it.
func TestC91_ABinaryOlderThanTheSchema(t *testing.T) {
	pool := installed(t, "")
	next := oneMore(t, `CREATE TABLE pgqueue.more (id int); ALTER TABLE pgqueue.jobs ADD COLUMN more int; CREATE INDEX more_index ON pgqueue.jobs (more)`)
	if err := migrations.UpWith(testContext(t), pool, "", next); err != nil {
		t.Fatal(err)
	}
	run(t, pool, `INSERT INTO pgqueue.jobs (queue, kind) VALUES ('other', 'k')`)
	for version, compatible := range map[int]bool{migrations.Latest + 1: true, migrations.Latest + 2: false} {
		run(t, pool, `UPDATE pgqueue.pgqueue_migrations SET version = $1`, version)
		before := append(objects(t, pool, "pgqueue"), rows(t, pool, `SELECT format('%s %s %s', ctid, version, dirty) FROM pgqueue.pgqueue_migrations`)...)
		refused := func(what string, err error) {
			t.Helper()
			var newer *migrations.NewerSchemaError
			if !errors.As(err, &newer) || newer.Version != uint(version) || newer.Latest != migrations.Latest || newer.Compatible() != compatible ||
				!strings.Contains(err.Error(), fmt.Sprintf("version %d,", version)) || !strings.Contains(err.Error(), fmt.Sprintf("up to %d:", migrations.Latest)) {
				t.Errorf("%s of version %d: %v", what, version, err)
			}
		}
		refused("up", migrations.Up(testContext(t), pool, "", quiet()))
		refused("down", migrations.Down(testContext(t), pool, "", quiet(), migrations.DiscardJobs()))

		// The promise of docs/compatibility.md: this binary works with its own version and the next.
		err := runAJob(testContext(t), pool, "", "mine")
		if compatible && err != nil {
			t.Errorf("a worker on version %d: %v", version, err)
		}
		if !compatible && (!errors.Is(err, pgqueue.ErrSchema) || !strings.Contains(err.Error(), fmt.Sprintf("version %d ", version)) ||
			!strings.Contains(err.Error(), fmt.Sprintf("%d and %d", migrations.Latest, migrations.Latest+1))) {
			t.Errorf("a worker on version %d: %v", version, err)
		}
		after := append(objects(t, pool, "pgqueue"), rows(t, pool, `SELECT format('%s %s %s', ctid, version, dirty) FROM pgqueue.pgqueue_migrations`)...)
		if strings.Join(before, "\n") != strings.Join(after, "\n") {
			t.Errorf("version %d: something was changed:\n%q\n%q", version, before, after)
		}
	}
}
