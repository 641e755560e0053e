package runner

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestConfigRefusals(t *testing.T) {
	const year = 365 * 24 * time.Hour
	tests := []struct {
		name    string
		config  Config
		renewer bool
		field   string
		words   []string
	}{
		{"workers", Config{Workers: -1}, true, "Workers", []string{"-1"}},
		{"batch below", Config{Batch: -1}, true, "Batch", nil},
		{"batch above", Config{Batch: 10_001}, true, "Batch", []string{"10000", "10001"}},
		{"report above", Config{MaxReport: 10_001}, true, "MaxReport", nil},
		{"poll", Config{Poll: -1}, true, "Poll", nil},
		{"storage timeout", Config{StorageTimeout: -1}, true, "StorageTimeout", nil},
		{"lease negative", Config{Lease: -1}, true, "Lease", nil},
		{"endless deadline", Config{Deadline: 20 * year}, true, "Deadline", nil},
		{"lease below three renewals", Config{Lease: 10 * time.Second, RenewEvery: 4 * time.Second}, true, "Lease", []string{"10s", "12s"}},
		{"call longer than an interval", Config{Lease: 12 * time.Second, StorageTimeout: 5 * time.Second}, true, "StorageTimeout", []string{"5s", "4s"}},
		{"lease shorter than a run", Config{Lease: 30 * time.Second}, false, "Lease", []string{"30s", "2m15s"}},
		{"the same with renewal off", Config{Lease: 30 * time.Second, RenewEvery: -1}, true, "Lease", []string{"30s", "2m15s"}},
		{"the longest kind counts", Config{Lease: 3 * time.Minute, Kinds: []KindConfig{{Name: "a"}, {Name: "b", Deadline: time.Hour}}}, false, "Lease", []string{"3m0s", "1h0m15s"}},
		{"no deadline without renewal", Config{Deadline: -1}, false, "Deadline", nil},
		{"no classes", Config{Classes: []Class{}}, true, "Classes", nil},
		{"a class twice", Config{Classes: []Class{2, 1, 2}}, true, "Classes", nil},
		{"nameless kind", Config{Kinds: []KindConfig{{}}}, true, "Kinds[0].Name", nil},
		{"kind twice", Config{Kinds: []KindConfig{{Name: "a"}, {Name: "a"}}}, true, "Kinds[1].Name", []string{`"a"`}},
		{"kind takes all slots", Config{Workers: 4, Kinds: []KindConfig{{Name: "a", Workers: 4}, {Name: "b"}}}, true, "Kinds[0].Workers", []string{"3", "4"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := test.config.resolve(test.renewer)
			var refused *ConfigError
			if !errors.As(err, &refused) {
				t.Fatalf("accepted, or the wrong error: %v", err)
			}
			if refused.Field != test.field {
				t.Errorf("field %q, want %q (%v)", refused.Field, test.field, err)
			}
			for _, word := range test.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
		})
	}
}

func TestConfigDefaults(t *testing.T) {
	c, err := Config{}.resolve(true)
	if err != nil {
		t.Fatal(err)
	}
	if c.Workers != 2 || c.Batch != 64 || c.Window != 250*time.Millisecond || c.Poll != time.Second ||
		c.Deadline != 2*time.Minute || c.StorageTimeout != 5*time.Second || c.Lease != 30*time.Second ||
		c.RenewEvery != 10*time.Second || len(c.Classes) != 4 {
		t.Errorf("defaults: %+v", c)
	}
	if c, err = (Config{}).resolve(false); err != nil || c.Lease != 2*time.Minute+15*time.Second || c.RenewEvery != 0 {
		t.Errorf("without renewal: lease %v, renewal %v, %v", c.Lease, c.RenewEvery, err)
	}
	if c, err = (Config{Lease: 2 * time.Second}).resolve(true); err != nil || c.StorageTimeout != 2*time.Second/3 {
		t.Errorf("a short lease shortens the storage timeout: %v, %v", c.StorageTimeout, err)
	}
	if _, err = (Config{Deadline: -1}).resolve(true); err != nil {
		t.Errorf("no deadline, with renewal: %v", err)
	}
	c, err = Config{Workers: 5, Kinds: []KindConfig{{Name: "a"}, {Name: "b", Workers: 2}}}.resolve(true)
	if err != nil || c.Kinds[0].Workers != 4 || c.Kinds[1].Workers != 2 {
		t.Errorf("kinds: %+v, %v", c.Kinds, err)
	}
	c, err = Config{Workers: 1, Kinds: []KindConfig{{Name: "a"}, {Name: "b"}}}.resolve(true)
	if err != nil || c.Kinds[0].Workers != 1 {
		t.Errorf("one worker for two kinds: %+v, %v", c.Kinds, err)
	}
	if _, err := New[int, int](nil, handle(noop), Config{}); err == nil {
		t.Error("a nil queue was accepted")
	}
	if _, err := New[int, int](newFake(0), nil, Config{}); err == nil {
		t.Error("a nil handler was accepted")
	}
}
