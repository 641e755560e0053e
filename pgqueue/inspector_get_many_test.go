package pgqueue_test

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// GetMany is Get for each of them, in their order, whatever state they are in.
func TestGetMany(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	inspector := newInspector(t, db.Pool)
	var ids []int64
	for _, state := range []pgqueue.JobState{"pending", "running", "succeeded", "cancelled", "failed", "dead"} {
		ids = append(ids, place(t, db, state))
	}
	exec(t, db.Pool, `UPDATE pgqueue.history SET payload = '{"n": 123456789012345678901234567890.10}'`)
	exec(t, db.Pool, `INSERT INTO pgqueue.job_progress (job_id, updated_at, attempt, progress) SELECT id, now(), attempt, '{"done": 3}' FROM pgqueue.jobs WHERE state = 'running'`)
	asked := []int64{ids[5], 999_999, ids[0], ids[1], ids[2], ids[4], ids[3]}
	jobs, err := inspector.GetMany(testContext(t), asked)
	if err != nil || len(jobs) != 6 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	for n, id := range []int64{ids[5], ids[0], ids[1], ids[2], ids[4], ids[3]} {
		single, err := inspector.Get(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(jobs[n], single) {
			got, _ := json.Marshal(jobs[n])
			want, _ := json.Marshal(single)
			t.Errorf("job %d:\n%s\nwant\n%s", id, got, want)
		}
	}
	if jobs, err := inspector.GetMany(testContext(t), nil); err != nil || len(jobs) != 0 {
		t.Errorf("none: %v, %v", jobs, err)
	}
	_, err = inspector.GetMany(testContext(t), make([]int64, pgqueue.MaxGetMany+1))
	requireInvalid(t, err, "ids")
}
