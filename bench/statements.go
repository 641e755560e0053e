package main

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// statements is a tracer that counts what is sent and times what claims jobs, in the same way for every engine that uses pgx: from
// before a claim is sent until its last row has been read.
type statements struct {
	claims func(sql string) bool // nil means that claims are not timed
	sent   atomic.Int64

	mu    sync.Mutex
	times []time.Duration
}

// claimStart is the key of a claim's begin in a context.
type claimStart struct{}

// TraceQueryStart is pgx.QueryTracer.
func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.sent.Add(1)
	if s.claims == nil || !s.claims(data.SQL) {
		return ctx
	}
	return context.WithValue(ctx, claimStart{}, time.Now())
}

// TraceQueryEnd is pgx.QueryTracer.
func (s *statements) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	begin, ok := ctx.Value(claimStart{}).(time.Time)
	if !ok || data.Err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times = append(s.times, time.Since(begin))
}

// TraceBatchStart is pgx.BatchTracer.
func (s *statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery is pgx.BatchTracer.
func (s *statements) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {
	s.sent.Add(1)
}

// TraceBatchEnd is pgx.BatchTracer.
func (s *statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// take answers the claims since the last call.
func (s *statements) take() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	times := s.times
	s.times = nil
	return times
}

// milliseconds makes figures of durations.
func milliseconds(times []time.Duration) []float64 {
	all := make([]float64, len(times))
	for i, t := range times {
		all[i] = float64(t.Nanoseconds()) / 1e6
	}
	return all
}

// percentile is the smallest figure that at least p percent do not exceed; NaN of none.
func percentile(figures []float64, p float64) float64 {
	if len(figures) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(figures))
	return sorted[max(0, int(math.Ceil(p/100*float64(len(sorted))))-1)]
}
