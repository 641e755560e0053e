package worker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/goleak"

	"github.com/pgqueue/pgqueue/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// funcs is a handler of functions. A nil claim finds nothing, a nil process succeeds.
type funcs struct {
	claim   func(ctx context.Context) (int, error)
	process func(ctx context.Context, task int) error
}

func (f funcs) Claim(ctx context.Context) (int, error) {
	if f.claim == nil {
		return 0, worker.ErrNoTask
	}
	return f.claim(ctx)
}

func (f funcs) Process(ctx context.Context, task int) error {
	if f.process == nil {
		return nil
	}
	return f.process(ctx, task)
}

// recovering is a handler that is a StaleRecoverer too.
type recovering struct {
	funcs
	recover func(ctx context.Context) error
}

func (r recovering) RecoverStale(ctx context.Context) error { return r.recover(ctx) }

// pile is a heap of numbered tasks to claim from.
type pile struct {
	mu   sync.Mutex
	next int
	left int
}

func (p *pile) add(tasks int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left += tasks
}

func (p *pile) claim(context.Context) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left == 0 {
		return 0, worker.ErrNoTask
	}
	p.left--
	p.next++
	return p.next, nil
}

func (p *pile) remaining() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left
}

// running is a call of Run that a test ends.
type running struct {
	end  context.CancelCauseFunc
	done chan error
}

var errEnough = errors.New("the test has seen enough")

func start(ctx context.Context, run func(context.Context) error) *running {
	ctx, end := context.WithCancelCause(ctx)
	r := &running{end: end, done: make(chan error, 1)}
	go func() { r.done <- run(ctx) }()
	return r
}

// stop ends Run and checks that it returns the cause.
func (r *running) stop(t *testing.T) {
	t.Helper()
	r.end(errEnough)
	if err := <-r.done; err != errEnough {
		t.Errorf("Run returned %v, want the cause of the end", err)
	}
}

// scrape returns what a registry shows, by series as in the text format.
func scrape(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	response := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	series := make(map[string]float64)
	for line := range strings.Lines(response.Body.String()) {
		name, text, found := strings.Cut(strings.TrimSpace(line), " ")
		if !found || name == "#" {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		series[name] = value
	}
	return series
}

func wantSeries(t *testing.T, got map[string]float64, want map[string]float64) {
	t.Helper()
	for name, value := range want {
		if is, there := got[name]; !there || is != value {
			t.Errorf("%s is %v (there: %v), want %v", name, is, there, value)
		}
	}
}

// logs is a logger and what it wrote.
type logs struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logs) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(text)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// apart gives a worker a registry of its own.
func apart() worker.Option { return worker.WithRegisterer(prometheus.NewRegistry()) }
