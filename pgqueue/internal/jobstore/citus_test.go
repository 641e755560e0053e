package jobstore_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/migrations"
	"github.com/pgqueue/pgqueue/pgqueue/internal/jobstore"
)

// What is sent to Citus answers the same on one Postgres. (That Citus can plan it is integration/citus's to say.)
func TestFormsForCitusAnswerTheSame(t *testing.T) {
	t.Parallel()
	f := open(t)
	citus := must(jobstore.New(schemaName, migrations.Channel(schemaName)))(t)
	if err := citus.UseCitus(); err != nil {
		t.Fatal(err)
	}
	f.exec(`INSERT INTO %s.jobs (queue, kind, priority, run_at, failures) VALUES ('later', 'k', 3, now() + '1 h', 0), ('later', 'k', 1, now() + '2 h', 1),
		('now''s', 'k', 4, now(), 0), ('now''s', 'k', 4, now() - interval '1 h', 0), ('paused', 'k', 1, now(), 0), ('theirs', 'other', 1, now(), 0)`)
	if err := f.store.Pause(f.ctx, f.pool, "paused", "a test"); err != nil {
		t.Fatal(err)
	}
	names := []string{"now's", "nobody", "paused", "later", "theirs"}

	var all [2][]string
	for i, store := range []*jobstore.Store{f.store, citus} {
		var queues []*jobstore.Queue
		for _, name := range names {
			queues = append(queues, must(store.Queue(f.pool, jobstore.QueueConfig{Name: name, WorkerID: "w1", Kinds: []string{"k"}}))(t))
		}
		for n, p := range must(jobstore.Probe(f.ctx, queues))(t) {
			all[i] = append(all[i], fmt.Sprintf("probe of %s: paused %v, scheduled %v, in %.0f h", names[n], p.Paused, p.Scheduled, p.Wait.Hours()))
		}
		for _, s := range must(store.Stats(f.ctx, f.pool, names, 100))(t) {
			s.OldestReady = s.OldestReady.Round(1e11)
			s.PausedAt = s.PausedAt.UTC()
			all[i] = append(all[i], fmt.Sprintf("%+v", s))
		}
		all[i] = append(all[i], must(store.QueueNames(f.ctx, f.pool, 100))(t)...)
		all[i] = append(all[i], must(store.QueueNames(f.ctx, f.pool, 2))(t)...)
		unknown := must(store.UnknownKinds(f.ctx, f.pool, names, []string{"k"}))(t)
		all[i] = append(all[i], fmt.Sprint(slices.Sorted(maps.Keys(unknown)), unknown["theirs"]))
	}
	if !slices.Equal(all[0], all[1]) {
		t.Errorf("the answers differ:\n%q\n%q", all[0], all[1])
	}
}

// One job with its hint: the row and the notification.
func TestEnqueueForCitusHints(t *testing.T) {
	t.Parallel()
	f := open(t)
	citus := must(jobstore.New(schemaName, migrations.Channel(schemaName)))(t)
	if err := citus.UseCitus(); err != nil {
		t.Fatal(err)
	}
	conn := must(pgx.Connect(f.ctx, f.direct))(t)
	defer conn.Close(f.ctx)
	must(conn.Exec(f.ctx, "LISTEN "+pgx.Identifier{migrations.Channel(schemaName)}.Sanitize()))(t)
	placed := must(citus.Enqueue(f.ctx, f.pool, []jobstore.Input{{Queue: "q", Kind: "k", Payload: []byte("{}"), Priority: 1, MaxAttempts: 3}},
		func(string) bool { return true }))(t)
	if hint := must(conn.WaitForNotification(f.ctx))(t); hint.Payload != "q" || placed[0].ID == 0 {
		t.Errorf("%+v %+v", hint, placed)
	}
}
