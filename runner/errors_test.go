package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestNilErrorsStayNil(t *testing.T) {
	if Permanent(nil) != nil || RetryAfter(time.Second, nil) != nil || Coded("x", nil) != nil || Safe(nil) != nil {
		t.Error("marking nil made an error of it")
	}
	if CancelWith(nil) == nil || SnoozeFor(0) == nil || Pause(0) == nil {
		t.Error("a decision was lost")
	}
}

// C116: delays are clamped.
func TestDelaysAreClamped(t *testing.T) {
	for _, test := range []struct{ in, want time.Duration }{
		{0, 0}, {-time.Hour, 0}, {math.MinInt64, 0}, {time.Hour, time.Hour}, {1 << 62, maxDelay}, {math.MaxInt64, maxDelay},
	} {
		for _, err := range []error{SnoozeFor(test.in), Pause(test.in), RetryAfter(test.in, errors.New("x"))} {
			var d *decided
			if !errors.As(err, &d) || d.delay != test.want {
				t.Errorf("%v: %v, want %v", err, d.delay, test.want)
			}
		}
	}
}

func TestDeadlineMatchesContext(t *testing.T) {
	if !errors.Is(ErrDeadline, context.DeadlineExceeded) || errors.Is(ErrDeadline, context.Canceled) {
		t.Error("ErrDeadline must match context.DeadlineExceeded and nothing else")
	}
}

func TestFailureTexts(t *testing.T) {
	plain := errors.New("secret of jane@example.com")
	pathError := &fs.PathError{Op: "open", Path: "/home/jane", Err: fs.ErrNotExist}
	tests := []struct {
		name          string
		err           error
		storeText     bool
		code, message string
	}{
		{"plain", plain, false, CodeError, "*errors.errorString"},
		{"plain, wrapped", fmt.Errorf("a: %w", plain), false, CodeError, "*errors.errorString"},
		{"typed, wrapped", fmt.Errorf("a: %w", pathError), false, CodeError, "*fs.PathError"},
		{"permanent, typed", Permanent(pathError), false, CodeError, "*fs.PathError"},
		{"text on request", fmt.Errorf("a: %w", plain), true, CodeError, "a: secret of jane@example.com"},
		{"coded", Coded("parse_error", plain), false, "parse_error", "*errors.errorString"},
		{"coded, wrapped and joined", errors.Join(errors.New("b"), fmt.Errorf("a: %w", Coded("c1", plain))), false, "c1", "*errors.errorString"},
		{"safe inside", fmt.Errorf("for jane: %w", Safe(errors.New("line 3"))), false, CodeError, "line 3"},
		{"safe and coded", Permanent(Coded("bad", Safef("line %d", 3))), false, "bad", "line 3"},
		{"empty code", Coded("", plain), false, CodeError, "*errors.errorString"},
		{"code of junk", Coded("a\x00b\xff", plain), false, "a\uFFFDb\uFFFD", "*errors.errorString"},
	}
	for _, test := range tests {
		f := failureOf(test.err, CodeError, test.storeText)
		if f.Code != test.code || f.Message != test.message {
			t.Errorf("%s: %q %q, want %q %q", test.name, f.Code, f.Message, test.code, test.message)
		}
	}
}

func TestTextsAreBounded(t *testing.T) {
	for _, s := range []string{
		strings.Repeat("x", 1<<20), strings.Repeat("é", 3000), strings.Repeat("\xff", 5000), strings.Repeat("\x00", 5000),
		strings.Repeat("世", 5000), "\xc3", strings.Repeat("y", 2047) + "世",
	} {
		f := failureOf(Coded(s, Safe(errors.New(s))), CodeError, false)
		for _, text := range []string{f.Code, f.Message} {
			if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				t.Errorf("%.20q: not storable", text)
			}
		}
		if len(f.Code) > 64 || len(f.Message) > 2048 {
			t.Errorf("%.20q: %d and %d bytes", s, len(f.Code), len(f.Message))
		}
	}
}

type cyclic struct{}

func (c *cyclic) Error() string { return "round" }
func (c *cyclic) Unwrap() error { return c }

func TestRootTypeOfCycle(t *testing.T) {
	if got := rootType(&cyclic{}); got != "*runner.cyclic" {
		t.Error(got)
	}
}
