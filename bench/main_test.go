package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"
)

// The tests run everything once, small, and look at what is printed. They say nothing about speed.

// TestMain is also a child's main: scenarios start this program again.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if text := os.Getenv(childVariable); text != "" {
		if err := serveChild(context.Background(), text, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if started != nil {
		started.close()
	}
	os.Exit(code)
}

var (
	starting sync.Mutex
	started  *server
)

// testServer is one server for all tests of this process.
func testServer(t *testing.T) *server {
	t.Helper()
	starting.Lock()
	defer starting.Unlock()
	if started == nil {
		server, err := openServer(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		started = server
	}
	return started
}

// one is the scenario of a name.
func one(t *testing.T, name string) scenario {
	t.Helper()
	for _, s := range scenarios() {
		if s.name == name {
			return s
		}
	}
	t.Fatalf("there is no scenario %q", name)
	return scenario{}
}

// measured runs a scenario for one engine, once, and answers its figures by metric.
func measured(t *testing.T, name string, e engine, jobs int, d time.Duration) map[string]float64 {
	t.Helper()
	s := one(t, name)
	if !s.fits(e) {
		t.Fatalf("%s does not measure %s", name, e)
	}
	figures, err := s.measure(t.Context(), &site{testServer(t), e, jobs, d})
	if err != nil {
		t.Fatalf("%s: %s: %v", name, e, err)
	}
	found := map[string]float64{}
	for _, f := range figures {
		found[f.metric] = f.value
	}
	return found
}

// wantPositive says which metrics must be there and be more than nothing.
func wantPositive(t *testing.T, found map[string]float64, metrics ...string) {
	t.Helper()
	for _, metric := range metrics {
		if value, ok := found[metric]; !ok || !(value > 0) {
			t.Errorf("%s is %v (there: %t), want more than 0; all: %v", metric, value, ok, found)
		}
	}
}
