package pgqueue

import (
	"context"
	"reflect"
)

// Handle registers handle for the jobs of T's kind. The arguments are decoded with encoding/json, numbers in fields of type
// any as [json.Number], which keeps all digits; a job whose arguments do not fit T has failed that attempt with code
// "undecodable", and no other job is affected.
//
// The error that handle returns decides what becomes of the job:
//
//   - nil: it has succeeded;
//   - [Permanent]: it has failed, and trying again is pointless;
//   - [RetryAfter]: the attempt failed and the job runs again no sooner than that;
//   - [Snooze]: it runs again later and nothing is spent;
//   - [Pause]: the same, and this queue claims nothing here meanwhile: a dependency is down;
//   - [Cancel]: it is cancelled;
//   - any other error, a panic, or a deadline that passed: the attempt failed; the job runs again after the backoff
//     of its kind, or is dead when max attempts have failed.
//
// ctx is cancelled at the deadline, when the job's lease is lost, when somebody cancels the job ([Client.Cancel]), or when a stopping
// worker has waited long enough; [context.Cause] tells which. Every handler must be prepared to run again for the same job: see [HandleTx] for
// effects that must happen once.
//
// T's kind is asked of its zero value. If it is empty, bad or taken, the mux reports it; see [Mux.Err].
func Handle[T Args](mux *Mux, handle func(ctx context.Context, job *Job[T]) error, options ...HandleOption) {
	if handle == nil {
		mux.Handle(kindOfType[T](), nil, options...)
		return
	}
	decode := decoder[T]()
	mux.Handle(kindOfType[T](), HandlerFunc(func(ctx context.Context, job *AnyJob) error {
		typed, err := decode(job)
		if err != nil {
			return err
		}
		typed.ctx = ctx
		return handle(ctx, typed)
	}), options...)
}

// kindOfType asks the zero value of T for its kind, or a pointer to a zero value where T is a pointer. A Kind method
// that cannot do without its fields gives the empty kind, which the mux refuses.
func kindOfType[T Args]() (kind string) {
	defer func() {
		if recovered := recover(); recovered != nil {
			kind = ""
		}
	}()
	var zero T
	if t := reflect.TypeFor[T](); t.Kind() == reflect.Pointer {
		value, ok := reflect.New(t.Elem()).Interface().(T)
		if !ok {
			return ""
		}
		zero = value
	}
	return zero.Kind()
}
