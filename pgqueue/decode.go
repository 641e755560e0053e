package pgqueue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/pgqueue/pgqueue/runner"
)

// decoder returns what turns a job's payload into T.
//
// Numbers that land in an interface stay as they were written: a map that is decoded, changed and enqueued again must
// not round the ids in it. Only a [json.Decoder] can do that, and it costs twice as much as [json.Unmarshal], so types without
// an interface do without it.
func decoder[T any]() func(job *AnyJob) (*Job[T], error) {
	unmarshal := json.Unmarshal
	if holdsInterface(reflect.TypeFor[T](), map[reflect.Type]bool{}) {
		unmarshal = unmarshalNumbers
	}
	return func(job *AnyJob) (*Job[T], error) {
		if job.attempt.unreadable != nil {
			return nil, job.attempt.unreadable
		}
		typed := &Job[T]{JobInfo: job.JobInfo, ctx: job.ctx, attempt: job.attempt}
		if err := unmarshal(job.Args, &typed.Args); err != nil {
			return nil, runner.Coded(runner.CodeUndecodable, fmt.Errorf("decode the arguments of %s: %w", job.attempt.row, err))
		}
		return typed, nil
	}
}

func unmarshalNumbers(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// holdsInterface tells whether a value of type t may have an interface in it. seen are the types that were asked about
// before: a type may contain itself.
func holdsInterface(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Interface:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return holdsInterface(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if holdsInterface(t.Field(i).Type, seen) {
				return true
			}
		}
	default:
	}
	return false
}
