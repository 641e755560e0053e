package listener

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

func TestReconnectDelay(t *testing.T) {
	const shortest, longest = 100 * time.Millisecond, 10 * time.Second
	if got := reconnectDelay(0, shortest, longest); got != 0 {
		t.Errorf("first attempt after %s", got)
	}
	for failures := 1; failures <= 70; failures++ {
		bound := longest
		if failures < 7 { // 2^7 × 100 ms is beyond the longest
			bound = shortest << failures
		}
		seen := map[time.Duration]bool{}
		for range 200 {
			delay := reconnectDelay(failures, shortest, longest)
			seen[delay] = true
			if delay < bound/2 || delay > bound {
				t.Fatalf("after %d failures %s, want %s to %s", failures, delay, bound/2, bound)
			}
		}
		if len(seen) < 2 {
			t.Errorf("after %d failures no jitter", failures)
		}
	}
	if got := reconnectDelay(3, time.Second, time.Second); got != time.Second {
		t.Errorf("with equal bounds %s", got)
	}
}

func TestEchoChannel(t *testing.T) {
	for _, channel := range []string{"q", strings.Repeat("x", 63), strings.Repeat("é", 31), strings.Repeat("語", 21)} {
		first, second := echoChannel(channel), echoChannel(channel)
		if len(first) > MaxChannel || !utf8.ValidString(first) || first == second || first == channel {
			t.Errorf("echo channels of %q: %q, %q", channel, first, second)
		}
	}
}

func TestHints(t *testing.T) {
	h := newHints()
	for range 3 {
		for i := range maxPending {
			h.add(fmt.Sprint(i))
		}
	}
	if got := h.add("one more"); got != overflow {
		t.Errorf("beyond the bound: %v", got)
	}
	for i := range maxPending {
		queue, all, ok := h.take()
		if queue != fmt.Sprint(i) || all || !ok {
			t.Fatalf("take %d: %q, %v, %v", i, queue, all, ok)
		}
	}
	if _, _, ok := h.take(); ok {
		t.Error("names were kept twice")
	}
	h.add("a")
	h.take()
	if got := h.add("a"); got != added {
		t.Errorf("a hint after its take: %v (it would be lost)", got) // C63
	}
	h.addAll()
	if got := h.add("b"); got != merged {
		t.Errorf("a hint beside a look at all: %v", got)
	}
	if _, all, ok := h.take(); !all || !ok {
		t.Error("no look at all")
	}
	if _, _, ok := h.take(); ok {
		t.Error("names outlived a look at all")
	}
}

// A database in SQL_ASCII can send what is not UTF-8.
func TestInvalidTextIsDiscarded(t *testing.T) {
	l, err := New(Config{
		Connect: func(context.Context) (*pgx.Conn, error) { return nil, errors.New("unused") },
		Channel: "c", OnHint: func(string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &run{Listener: l, hints: newHints(), session: &session{}}
	r.hint("a\xffb")
	if _, _, ok := r.hints.take(); ok || l.Status().Discarded != 1 {
		t.Errorf("status %+v", l.Status())
	}
}
