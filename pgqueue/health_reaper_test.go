package pgqueue_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// graceful is a worker whose reaper looks often and, as usual, waits longer than that after a failure: in the grace it asks whether the
// database answers, which it does all the time.
func graceful(t *testing.T, client *pgqueue.Client) *running {
	t.Helper()
	mux := pgqueue.NewMux()
	pgqueue.Handle(mux, func(context.Context, *pgqueue.Job[task]) error { return nil })
	worker := startWorker(t, client, mux, pgqueue.WorkerConfig{
		Queues: pgqueue.Queues{"mail": {}}, ReapInterval: time.Second, RenewEvery: 8 * time.Second, Lease: 24 * time.Second, DisableListener: true,
	})
	eventually(t, "it is ready", func() bool { return probe(t, false, worker.Worker).status == 200 })
	return worker
}

// requireReaperBad waits until the reaper is named and requires that it stays named, through a grace and what follows it.
func requireReaperBad(t *testing.T, worker *running, reason string) {
	t.Helper()
	since := time.Now()
	eventually(t, "the reaper is named", func() bool { return !probe(t, false, worker.Worker).loops["reap:mail"].OK })
	// Three of its intervals; the rest is for a busy machine.
	if took := time.Since(since); took > 8*time.Second {
		t.Errorf("it was named after %v", took)
	}
	// The lock may have come between the two statements of a pass: then that has been done, and its answer comes late.
	eventually(t, "the failure is told", func() bool {
		return strings.Contains(probe(t, false, worker.Worker).loops["reap:mail"].Detail, reason)
	})
	until := time.Now().Add(15 * time.Second)
	eventually(t, "a grace and another failure have passed", func() bool {
		p := probe(t, false, worker.Worker)
		if loop := p.loops["reap:mail"]; loop.OK || p.status != 503 {
			t.Fatalf("a reaper that takes nothing is well again after %v: %s", time.Since(since), p.body)
		}
		return time.Now().After(until)
	})
	if loop := probe(t, false, worker.Worker).loops["reap:mail"]; !strings.Contains(loop.Detail, reason) || time.Since(loop.Since) < 15*time.Second {
		t.Errorf("%+v, want %q and no progress", loop, reason)
	}
}

// A reaper that cannot take leases is not ready, although the database answers: the table is locked.
func TestC133_AReaperBehindALockIsNamed(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	worker := graceful(t, quietClient(t, db.Pool))
	tx := begin(t, db.Pool, pgx.TxOptions{})
	exec(t, tx, "LOCK TABLE pgqueue.jobs IN ACCESS EXCLUSIVE MODE")
	requireReaperBad(t, worker, "no answer in time")
	exec(t, tx, "ROLLBACK")
	eventually(t, "it is ready again", func() bool { return probe(t, false, worker.Worker).status == 200 })
}

// The same where a right was taken from it while it ran.
func TestC133_AReaperWithoutRightsIsNamed(t *testing.T) {
	t.Parallel()
	db, as := documentedRoles(t)
	log := &lockedLog{}
	worker := graceful(t, newClient(t, as("app"), pgqueue.WithLogger(log.logger())))
	exec(t, db.Pool, "REVOKE INSERT ON pgqueue.history FROM pgqueue_worker")
	requireReaperBad(t, worker, "SQLSTATE 42501")
	if p := probe(t, false, worker.Worker); len(p.bad) != 1 {
		t.Errorf("not ready because of %v", p.bad)
	}
	if log.count("reaper: cannot recover stale leases") != 1 {
		t.Errorf("the log:\n%s", log.text.String())
	}
	exec(t, db.Pool, "GRANT INSERT ON pgqueue.history TO pgqueue_worker")
	eventually(t, "it is ready again", func() bool { return probe(t, false, worker.Worker).status == 200 })
}
