package sqltxtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
	"github.com/pgqueue/pgqueue/sqltx"
)

func exactlyWhen(f *fixture) {
	f.exec(f.db, "CREATE TABLE users (name text)")
	for _, level := range levels() {
		for _, commit := range []bool{false, true} {
			name := fmt.Sprint(level, commit)
			tx := f.begin(level)
			f.exec(tx, "INSERT INTO users VALUES ('ada')")
			enqueued := must(f.client.Enqueue(f.ctx, sqltx.On(tx), greet{name}))(f)
			if enqueued.ID == 0 || enqueued.Outcome != pgqueue.Inserted {
				f.Fatalf("%+v", enqueued)
			}
			if !commit {
				if err := tx.Rollback(); err != nil {
					f.Fatal(err)
				}
				pgqueuetest.RequireNotEnqueued[greet](f, f.database.Pool, pgqueuetest.WithArgs(greet{name}))
				continue
			}
			f.commit(tx)
			if job := pgqueuetest.RequireEnqueued[greet](f, f.database.Pool, pgqueuetest.WithArgs(greet{name})); job.ID != enqueued.ID {
				f.Fatalf("job %d %+v", job.ID, job.Args)
			}
		}
	}
}

func everyOption(f *fixture) {
	at := time.Date(2031, 2, 3, 4, 5, 6, 789000, time.FixedZone("", 5*3600+45*60))
	always := []pgqueue.EnqueueOption{
		pgqueue.OnQueue(tricky), pgqueue.WithRunAt(at), pgqueue.WithPriority(3), pgqueue.WithTags(tricky, "NULL", "{}"),
		pgqueue.WithMetadata(map[string]string{"k": tricky}), pgqueue.WithMaxAttempts(7),
	}
	for i, level := range levels() {
		key := fmt.Sprint(tricky, i)
		for _, options := range [][]pgqueue.EnqueueOption{
			always, // one job without a key has a statement of its own
			append(slices.Clone(always), pgqueue.WithKey(key), pgqueue.WithRevision(tricky)),
		} {
			tx := f.begin(level)
			enqueued := must(f.client.Enqueue(f.ctx, sqltx.On(tx), greet{tricky}, options...))(f)
			f.commit(tx)
			got := f.get(enqueued.ID)
			var args greet
			var metadata map[string]string
			if err := errors.Join(json.Unmarshal(got.Payload, &args), json.Unmarshal(got.Metadata, &metadata)); err != nil {
				f.Fatal(err)
			}
			keyed := len(options) > len(always)
			if got.Queue != tricky || !got.RunAt.Equal(at) || got.Priority != 3 || got.MaxAttempts != 7 || args.Name != tricky || metadata["k"] != tricky ||
				!slices.Equal(got.Tags, []string{tricky, "NULL", "{}"}) || keyed != (got.Key == key && got.Revision == tricky) {
				f.Errorf("%s: %+v", level, got)
			}
		}
	}
	tx := f.begin(0)
	bare := must(f.client.Enqueue(f.ctx, sqltx.On(tx), greet{}))(f)
	later := must(f.client.Enqueue(f.ctx, sqltx.On(tx), greet{}, pgqueue.WithDelay(time.Hour)))(f)
	f.commit(tx)
	if got := f.get(bare.ID); got.Key != "" || len(got.Tags) != 0 || got.MaxAttempts != 3 || got.RunAt.After(got.CreatedAt) {
		f.Errorf("%+v", got)
	}
	if got := f.get(later.ID); got.RunAt.Sub(got.CreatedAt) != time.Hour {
		f.Errorf("%+v", got)
	}
}

func keys(f *fixture) {
	for _, level := range levels() {
		tx := f.begin(level)
		on := sqltx.On(tx)
		key := pgqueue.WithKey(level.String())
		first := must(f.client.Enqueue(f.ctx, on, greet{"a"}, key, pgqueue.WithRevision("1")))(f)
		f.commit(tx)

		tx = f.begin(level)
		on = sqltx.On(tx)
		second := must(f.client.Enqueue(f.ctx, on, greet{"a"}, key, pgqueue.WithRevision("1")))(f)
		third := must(f.client.Enqueue(f.ctx, on, greet{"b"}, key, pgqueue.WithRevision("2")))(f)
		// The stricter levels look at no snapshot that may be old: the same input is written once more.
		want := []pgqueue.Enqueued{{ID: first.ID, Outcome: pgqueue.Same}, {ID: first.ID, Outcome: pgqueue.Replaced}}
		if level > 2 && second.Outcome == pgqueue.Replaced {
			want[0].Outcome = pgqueue.Replaced
		}
		if got := []pgqueue.Enqueued{second, third}; first.Outcome != pgqueue.Inserted || !slices.Equal(got, want) {
			f.Errorf("%s: %+v %+v, want %+v", level, first, got, want)
		}
		f.exec(tx, "SELECT 1") // duplicates leave the transaction usable
		f.commit(tx)
		if got := f.get(first.ID); !strings.Contains(string(got.Payload), `"b"`) {
			f.Errorf("%s: %s", level, got.Payload)
		}
	}
}

func many(f *fixture) {
	for _, level := range levels() {
		var jobs []pgqueue.NewJob
		for i := range 120 {
			options := []pgqueue.EnqueueOption{pgqueue.OnQueue(fmt.Sprint(tricky, i%3)), pgqueue.WithDelay(time.Duration(i) * time.Millisecond)}
			if i%2 == 0 {
				options = append(options, pgqueue.WithKey(fmt.Sprint(tricky, level, i)), pgqueue.WithTags(tricky))
			}
			jobs = append(jobs, pgqueue.NewJob{Args: greet{fmt.Sprint(tricky, i)}, Options: options})
		}
		tx := f.begin(level)
		enqueued := must(f.client.EnqueueMany(f.ctx, sqltx.On(tx), jobs))(f)
		f.commit(tx)
		for _, i := range []int{0, 1, 2, 119} {
			got := f.get(enqueued[i].ID)
			var args greet
			if err := json.Unmarshal(got.Payload, &args); err != nil || args.Name != fmt.Sprint(tricky, i) || got.Queue != fmt.Sprint(tricky, i%3) {
				f.Errorf("%s, %d: %s on %q: %v", level, i, got.Payload, got.Queue, err)
			}
			if i%2 == 0 != (got.Key == fmt.Sprint(tricky, level, i) && slices.Equal(got.Tags, []string{tricky})) {
				f.Errorf("%s, %d: key %q tags %q", level, i, got.Key, got.Tags)
			}
		}
	}
}

func badInput(f *fixture) {
	tx := f.begin(0)
	var invalid *pgqueue.ValidationError
	for _, args := range []pgqueue.Args{greet{"a\x00"}, pgqueue.Raw{}} {
		if _, err := f.client.Enqueue(f.ctx, sqltx.On(tx), args); !errors.As(err, &invalid) {
			f.Error(err)
		}
	}
	must(f.client.Enqueue(f.ctx, sqltx.On(tx), greet{"a"}))(f) // the transaction is usable
}
