package console

import (
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 800 * time.Nanosecond: "0 µs", 15 * time.Microsecond: "15 µs", 250 * time.Millisecond: "250 ms", 1234 * time.Millisecond: "1.2 s", 59 * time.Second: "59 s",
		time.Minute: "1 min", 61 * time.Second: "1 min 1 s", time.Hour: "1 h", 90*time.Minute + 29*time.Second: "1 h 30 min", 49 * time.Hour: "2 d 1 h", -5 * time.Second: "-5.0 s",
	} {
		if got := duration(d); got != want {
			t.Errorf("%v: %q, want %q", int64(d), got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for value, want := range map[any]string{0: "0", 999: "999", 1000: "1,000", int64(-1234567): "-1,234,567", uint8(7): "7", 0.126: "0.13", 2.5: "2.5", 12345.678: "12,346", -0.5: "-0.5"} {
		if got, err := number(value); got != want || err != nil {
			t.Errorf("number %v: %q, %v, want %q", value, got, err, want)
		}
	}
	for value, want := range map[any]string{0: "0 B", 999: "999 B", 1000: "1 kB", int64(1_500_000): "1.5 MB", 20 << 20: "21 MB", 999_600: "1 MB", 123_400_000_000: "123 GB", uint64(1 << 60): "1153 PB"} {
		if got, err := bytesText(value); got != want || err != nil {
			t.Errorf("bytes %v: %q, %v, want %q", value, got, err, want)
		}
	}
	if _, err := number("x"); err == nil {
		t.Error("a text is a number")
	}
}

func TestAgo(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("", 3600))
	for d, want := range map[time.Duration]string{0: "just now", 5 * time.Second: "5 s ago", 90 * time.Second: "1 min ago", -3 * time.Hour: "in 3 h", 50 * time.Hour: "2 d ago", 40 * time.Hour: "40 h ago"} {
		if got := string(ago(now.Add(-d), now)); !strings.Contains(got, ">"+want+"<") {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
	for at, want := range map[time.Time]string{
		time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC): "in 2912379 d", time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC): "739677 d ago",
	} {
		if got := string(ago(at, now)); !strings.Contains(got, ">"+want+"<") {
			t.Errorf("%v: %s, want %s", at, got, want)
		}
	}
	if got := string(ago(now, now)); got != `<time datetime="2026-03-04T04:06:07.000Z" title="2026-03-04 04:06:07.000 UTC">just now</time>` {
		t.Error(got)
	}
	if got := string(ago(time.Time{}, now)); strings.Contains(got, "time") {
		t.Error(got)
	}
}

func TestFuncsThatMakeElementsEscape(t *testing.T) {
	for _, text := range hostile() {
		badge := string(stateBadge(text))
		short, err := excerptHTML(text, 8)
		if err != nil {
			t.Fatal(err)
		}
		long, err := excerptHTML(pgqueue.Excerpt{Text: text, Cut: true, Size: 20 << 20})
		if err != nil {
			t.Fatal(err)
		}
		for _, made := range []string{badge, string(short), string(long)} {
			if found := difference(strings.ReplaceAll(made, "<span class=\"muted\">", ""), map[bool]string{true: `<span class data-state>`, false: `<code class>`}[made == badge]); found != "" {
				t.Errorf("%s: %s", made, found)
			}
		}
	}
	if _, err := excerptHTML(7); err == nil {
		t.Error("a number is a text")
	}
	if _, err := dict("a"); err == nil {
		t.Error("dict takes a name alone")
	}
	if _, err := dict(1, 2); err == nil {
		t.Error("dict takes a number as a name")
	}
}
