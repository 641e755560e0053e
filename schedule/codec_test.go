package schedule

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pgqueue/pgqueue/codec"
	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// The payload of a schedule is stored like that of its jobs.
func TestPayloadsOfSchedulesAreEncoded(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	ctx := context.Background()
	keys, err := codec.AESGCM(codec.Key{ID: "k1", Secret: bytes.Repeat([]byte("k"), codec.KeySize)})
	if err != nil {
		t.Fatal(err)
	}
	client, err := pgqueue.NewClient(db.Pool, pgqueue.WithCodec(keys), pgqueue.WithStrictCodec())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(ctx) })
	editor, err := NewEditor(client)
	if err != nil {
		t.Fatal(err)
	}
	const secret = "planted-in-a-schedule"
	args := pgqueue.Raw{Name: "report", Payload: []byte(`{"for":"` + secret + `"}`)}
	if _, err := editor.Put(ctx, db.Pool, Schedule{Name: "daily", Spec: "@daily", Args: args}); err != nil {
		t.Fatal(err)
	}
	enqueued, err := editor.TriggerNow(ctx, db.Pool, "daily")
	if err != nil {
		t.Fatal(err)
	}
	var table, jobs string
	if err := db.Pool.QueryRow(ctx, "SELECT (SELECT string_agg(s::text, '') FROM pgqueue.schedules s), (SELECT string_agg(j::text, '') FROM pgqueue.jobs j)").
		Scan(&table, &jobs); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(table+jobs, secret) || !strings.Contains(table, "k1") || !strings.Contains(jobs, "k1") {
		t.Errorf("stored: %s %s", table, jobs)
	}
	job, err := client.Get(ctx, db.Pool, enqueued.ID)
	if err != nil || string(job.Payload) != string(args.Payload) {
		t.Errorf("%s, %v", job.Payload, err)
	}
	stored, err := editor.Get(ctx, db.Pool, "daily")
	if err != nil || string(stored.Payload) != string(args.Payload) {
		t.Errorf("%s, %v", stored.Payload, err)
	}
	all, err := editor.List(ctx, db.Pool, ListFilter{})
	if err != nil || len(all) != 1 || string(all[0].Payload) != string(args.Payload) {
		t.Errorf("%+v, %v", all, err)
	}

	// A tick decodes and encodes it; a second process that has the same schedule finds it as it is.
	config := Config{Schedules: []Schedule{{Name: "registered", Spec: "@daily", Args: args}}}
	tick(t, newTestScheduler(t, client, config, databaseNow))
	var before, after string
	read := func() (definition string) {
		t.Helper()
		if err := db.Pool.QueryRow(ctx, "SELECT definition || payload::text FROM pgqueue.schedules WHERE name = 'registered'").Scan(&definition); err != nil {
			t.Fatal(err)
		}
		return definition
	}
	before = read()
	tick(t, newTestScheduler(t, client, config, databaseNow))
	if after = read(); after != before || strings.Contains(before, secret) {
		t.Errorf("registered again: %s, %s", before, after)
	}
	if _, err := db.Pool.Exec(ctx, "UPDATE pgqueue.schedules SET next_run_at = now() WHERE name = 'registered'"); err != nil {
		t.Fatal(err)
	}
	ticks := tick(t, newTestScheduler(t, client, config, databaseNow)).Ticks
	if len(ticks) != 1 {
		t.Fatalf("%d ticks", len(ticks))
	}
	if job, err := client.Get(ctx, db.Pool, ticks[0].JobID); err != nil || string(job.Payload) != string(args.Payload) {
		t.Errorf("%+v, %v", job, err)
	}

	// Who has written plaintext into the row gets no job that is encoded in our name.
	if _, err := db.Pool.Exec(ctx, `UPDATE pgqueue.schedules SET payload = '{"for": "me"}'`); err != nil {
		t.Fatal(err)
	}
	if _, err := editor.TriggerNow(ctx, db.Pool, "daily"); !errors.Is(err, pgqueue.ErrNotEncoded) {
		t.Errorf("error %v", err)
	}
}
