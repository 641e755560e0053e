package queuetest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/runner"
	"github.com/pgqueue/pgqueue/runner/memqueue"
	"github.com/pgqueue/pgqueue/runner/queuetest"
)

type (
	payload = memPayload
	harness = queuetest.Harness[payload, string]
)

type memPayload struct{ name, revision string }

const badResult = "\x00"

// memory makes the harness of a queue in memory. Tests of the suite change the harness afterwards.
func memory(config memqueue.Config) (harness, *memqueue.Queue[payload, string]) {
	config.MaxAttempts = 4
	q := memqueue.New[payload, string](config)
	q.RejectResults(func(result string) error {
		if result == badResult {
			return errors.New("the result is not valid")
		}
		return nil
	})
	put := func(item queuetest.NewItem, err error) {
		q.Put(memqueue.Input[payload]{
			Name: item.Name, Kind: item.Kind, Class: item.Class, Revision: item.Revision,
			Due: time.Now().Add(item.Due), Payload: payload{item.Name, item.Revision}, Err: err,
		})
	}
	return harness{
		Queue:  q,
		Budget: config.MaxAttempts,
		Add:    func(item queuetest.NewItem) { put(item, nil) },
		Delete: func(name string) { q.Delete(name) },
		Look:   func(name string) queuetest.Item { return look(q, name) },
		Name:   func(task runner.Task[payload]) string { return task.Payload.name },
		MakeDue: func(name string) {
			q.SetDue(name, time.Now())
		},
		ExpireLeases: q.ExpireLeases,
		Recover: func(ctx context.Context, limit int) (int, error) {
			recovered, err := q.Recover(ctx, limit)
			return recovered.Total(), err
		},
		Replace: func(name, revision string) {
			was, _ := q.Get(name)
			put(queuetest.NewItem{Name: name, Kind: was.Kind, Class: was.Class, Revision: revision}, nil)
		},
		Revision:       func(p payload) string { return p.revision },
		Result:         func(text string) string { return text },
		BadResult:      func() string { return badResult },
		MakeIneligible: func(name string) { q.SetEligible(name, false) },
		Lock: func(name string) func() {
			q.Lock(name)
			return sync.OnceFunc(func() { q.Unlock(name) })
		},
		AddUndecodable: func(name string) {
			put(queuetest.NewItem{Name: name, Kind: queuetest.KindA, Class: runner.ClassFresh}, errors.New("not JSON"))
		},
		RequestCancel: func(name string) { q.RequestCancel(name) },
	}, q
}

func look(q *memqueue.Queue[payload, string], name string) queuetest.Item {
	found, ok := q.Get(name)
	if !ok {
		return queuetest.Item{}
	}
	item := queuetest.Item{
		State: map[memqueue.State]queuetest.State{
			memqueue.Pending: queuetest.Waiting, memqueue.Running: queuetest.Claimed,
			memqueue.Succeeded: queuetest.Succeeded, memqueue.Failed: queuetest.Failed,
			memqueue.Dead: queuetest.Dead, memqueue.Cancelled: queuetest.Cancelled,
		}[found.State],
		Attempts: found.Attempt, Failures: found.Failures, Revision: found.Revision, DueIn: time.Until(found.Due),
	}
	if found.Result != nil {
		item.HasResult, item.Result = true, *found.Result
	}
	return item
}

func TestMemoryQueueConforms(t *testing.T) {
	queuetest.Run(t, func(testing.TB) harness {
		h, _ := memory(memqueue.Config{})
		return h
	})
}

func TestMemoryQueueThatRefusesLateSuccessConforms(t *testing.T) {
	queuetest.Run(t, func(testing.TB) harness {
		h, _ := memory(memqueue.Config{RefuseLate: true})
		h.Without = []queuetest.Capability{queuetest.LateSuccess}
		return h
	})
}

func TestMemoryQueueThatForgetsConforms(t *testing.T) {
	queuetest.Run(t, func(testing.TB) harness {
		h, _ := memory(memqueue.Config{Forget: true})
		h.Without = []queuetest.Capability{queuetest.History}
		return h
	})
}

// plain hides what the Go type of the queue declares.
type plain struct {
	runner.Queue[payload, string]
}

// The least that a queue may be: it claims, reports and recovers.
func TestLeastQueueConforms(t *testing.T) {
	queuetest.Run(t, func(testing.TB) harness {
		h, _ := memory(memqueue.Config{Forget: true, RefuseLate: true})
		h.Queue = plain{h.Queue}
		h.Replace, h.Revision, h.Result, h.BadResult, h.MakeIneligible = nil, nil, nil, nil, nil
		h.Lock, h.AddUndecodable, h.RequestCancel = nil, nil, nil
		h.Without = []queuetest.Capability{queuetest.Classes, queuetest.Kinds, queuetest.Revisions, queuetest.Results,
			queuetest.BadResults, queuetest.Eligibility, queuetest.Locks, queuetest.LateSuccess, queuetest.CrashBudget,
			queuetest.FailureCount, queuetest.History, queuetest.Undecodable, queuetest.CancelRequests, queuetest.Renewal,
			queuetest.Scheduling}
		return h
	})
}
