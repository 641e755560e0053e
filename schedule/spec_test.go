package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// between lists the ticks of a specification from an instant until before another, as local times.
func between(t testing.TB, spec, zone, from, until string) []string {
	t.Helper()
	parsed, err := Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	location, err := LoadZone(zone)
	if err != nil {
		t.Fatal(err)
	}
	parse := func(text string) time.Time {
		at, err := time.ParseInLocation("2006-01-02 15:04", text, location)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	var found []string
	end := parse(until)
	for tick, ok := parsed.Next(parse(from).Add(-time.Nanosecond), location, time.Time{}); ok && tick.Before(end); {
		if found = append(found, tick.In(location).Format("2006-01-02 15:04 -0700")); len(found) > 10_000 {
			t.Fatal("no end")
		}
		tick, ok = parsed.Next(tick, location, time.Time{})
	}
	return found
}

func TestC95_AFixedTimeInTheGapRunsOnceWhenTheGapEnds(t *testing.T) {
	t.Parallel()
	wantTexts(t, "New York", between(t, "30 2 * * *", "America/New_York", "2026-03-07 00:00", "2026-03-10 00:00"),
		"2026-03-07 02:30 -0500", "2026-03-08 03:00 -0400", "2026-03-09 02:30 -0400")
	// Several times of one gap are one instant, and an instant comes once.
	wantTexts(t, "two in the gap", between(t, "0,30 2,3 * * *", "America/New_York", "2026-03-08 00:00", "2026-03-09 00:00"),
		"2026-03-08 03:00 -0400", "2026-03-08 03:30 -0400")
	// Minutes that repeat within an hour that is not there: a day is not lost for that.
	wantTexts(t, "*/30 2", between(t, "*/30 2 * * *", "America/New_York", "2026-03-08 00:00", "2026-03-09 00:00"), "2026-03-08 03:00 -0400")
	// Every half hour: no gap and no burst.
	halves := between(t, "*/30 * * * *", "America/New_York", "2026-03-08 00:00", "2026-03-09 00:00")
	if len(halves) != 46 || halves[3] != "2026-03-08 01:30 -0500" || halves[4] != "2026-03-08 03:00 -0400" {
		t.Errorf("%d half hours: %v", len(halves), halves)
	}
	wantTexts(t, "midnight in Havana", between(t, "0 0 * * *", "America/Havana", "2026-03-07 00:00", "2026-03-10 00:00"),
		"2026-03-07 00:00 -0500", "2026-03-08 01:00 -0400", "2026-03-09 00:00 -0400")
	wantTexts(t, "half an hour", between(t, "15 2 * * *", "Australia/Lord_Howe", "2026-10-03 00:00", "2026-10-06 00:00"),
		"2026-10-03 02:15 +1030", "2026-10-04 02:30 +1100", "2026-10-05 02:15 +1100")
	wantTexts(t, "the day that Samoa left out", between(t, "0 9 * * *", "Pacific/Apia", "2011-12-29 00:00", "2012-01-02 00:00"),
		"2011-12-29 09:00 -1000", "2011-12-31 00:00 +1400", "2011-12-31 09:00 +1400", "2012-01-01 09:00 +1400")
	wantTexts(t, "once a year, on that day", between(t, "0 * 30 12 *", "Pacific/Apia", "2011-01-01 00:00", "2012-01-02 00:00"), "2011-12-31 00:00 +1400")
}

func TestC96_AFixedTimeThatComesTwiceRunsOnce(t *testing.T) {
	t.Parallel()
	wantTexts(t, "New York", between(t, "30 1 * * *", "America/New_York", "2026-10-31 00:00", "2026-11-03 00:00"),
		"2026-10-31 01:30 -0400", "2026-11-01 01:30 -0400", "2026-11-02 01:30 -0500")
	if hours := between(t, "0 * * * *", "America/New_York", "2026-11-01 00:00", "2026-11-02 00:00"); len(hours) != 25 {
		t.Errorf("%d hours: %v", len(hours), hours)
	}
	wantTexts(t, "Lord Howe", between(t, "45 1 * * *", "Australia/Lord_Howe", "2026-04-05 00:00", "2026-04-06 00:00"), "2026-04-05 01:45 +1100")
	for zone, day := range map[string]string{"Australia/Lord_Howe": "2026-04-05", "America/New_York": "2026-11-01", "Africa/Casablanca": "2026-02-15"} {
		location, err := LoadZone(zone)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.ParseInLocation("2006-01-02", day, location)
		if err != nil {
			t.Fatal(err)
		}
		at = at.Add(-time.Hour)
		quarters, err := Preview("*/15 * * * *", zone, at, 200)
		if err != nil {
			t.Fatal(err)
		}
		for _, tick := range quarters {
			if tick.Sub(at) != 15*time.Minute {
				t.Errorf("%s: %s after %s", zone, tick, at)
			}
			at = tick
		}
	}
	// An interval within restricted hours goes on in both passes; it must not fall silent for an hour.
	if n := len(between(t, "*/15 1-2 * * *", "America/New_York", "2026-11-01 00:00", "2026-11-02 00:00")); n != 12 {
		t.Errorf("%d quarters", n)
	}
	wantTexts(t, "Casablanca", between(t, "30 2 * * *", "Africa/Casablanca", "2026-02-14 00:00", "2026-02-17 00:00"),
		"2026-02-14 02:30 +0100", "2026-02-15 02:30 +0100", "2026-02-16 02:30 +0000")
	wantTexts(t, "two hours", between(t, "30 1,2 * * *", "Antarctica/Troll", "2026-10-25 00:00", "2026-10-26 00:00"),
		"2026-10-25 01:30 +0200", "2026-10-25 02:30 +0200")
}

func TestC98_SpecificationsThatMatchRarely(t *testing.T) {
	t.Parallel()
	first := func(spec, after string, n int) []string {
		found, err := Preview(spec, "UTC", at(after), n)
		if err != nil {
			t.Fatal(err)
		}
		for i := range found {
			found[i] = found[i].UTC()
		}
		return texts(found)
	}
	begin := time.Now()
	for range 1000 {
		first("0 0 29 2 *", "2096-03-01T00:00:00Z", 1)
	}
	if took := time.Since(begin); took > 10*time.Second { // ten milliseconds each; it takes microseconds
		t.Errorf("a thousand look-ups over eight years took %s", took)
	}
	wantTexts(t, "29 February", first("0 0 29 2 *", "2096-03-01T00:00:00Z", 2), "2104-02-29T00:00:00Z", "2108-02-29T00:00:00Z")
	wantTexts(t, "the 31st", first("0 0 31 * *", "2026-01-01T00:00:00Z", 4),
		"2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z", "2026-07-31T00:00:00Z")
	wantTexts(t, "Mondays and firsts", first("0 0 1 * 1", "2026-06-30T00:00:00Z", 4),
		"2026-07-01T00:00:00Z", "2026-07-06T00:00:00Z", "2026-07-13T00:00:00Z", "2026-07-20T00:00:00Z")
	wantTexts(t, "Mondays that are odd, as Vixie cron has it", first("0 0 */2 * 1", "2026-06-30T00:00:00Z", 3),
		"2026-07-13T00:00:00Z", "2026-07-27T00:00:00Z", "2026-08-03T00:00:00Z")
	wantTexts(t, "names", first("0 0 1-7 JAN,mar fri-sun", "2025-12-31T12:00:00Z", 3), "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z")
	wantTexts(t, "7 is Sunday", first("0 0 * * 7", "2026-01-01T00:00:00Z", 1), "2026-01-04T00:00:00Z")
	wantTexts(t, "weekly", first("@weekly", "2026-01-01T00:00:00Z", 1), "2026-01-04T00:00:00Z")
	wantTexts(t, "steps", first("10-40/15 5 * * *", "2026-01-01T00:00:00Z", 3), "2026-01-01T05:10:00Z", "2026-01-01T05:25:00Z", "2026-01-01T05:40:00Z")
}

func TestC98_SpecificationsThatCannotBeMeantAreRefusedBeforeAnySQL(t *testing.T) {
	t.Parallel()
	client := pgqueuetest.New(t, pgqueuetest.WithoutMigrations()).Client(t) // there is no table that could answer
	for spec, want := range map[string]string{
		"0 0 30 2 *":                            "matches no day of any year",
		"0 0 31 4,6,9,11 *":                     "matches no day",
		"@every -1s":                            "must be an interval from 1s",
		"@every 0s":                             "must be an interval from 1s",
		"@every 1500ms":                         "whole number of seconds",
		"@every":                                "needs an interval",
		"@every soon":                           "needs an interval",
		"@at tomorrow":                          "needs an instant",
		"@reboot":                               "is not understood",
		"@daily 5":                              "is not understood",
		"* * * * * *":                           "has 6 fields where five are understood, from minute to day of week; there are no seconds",
		"* * * *":                               "has 4 fields where five are needed",
		"60 * * * *":                            `the minute "60" is out of range: from 0 to 59`,
		"* 24 * * *":                            `the hour "24" is out of range: from 0 to 23`,
		"* * 0 * *":                             `the day of month "0" is out of range: from 1 to 31`,
		"* * * 13 *":                            `the month "13" is out of range`,
		"* * * * 8":                             `the day of week "8" is out of range`,
		"5-1 * * * *":                           "goes backwards",
		"*/0 * * * *":                           "a step that is not a whole number",
		"*/90 * * * *":                          "longer than the range from 0 to 59",
		"5/10 * * * *":                          "has a step but no range; write 5-59/10",
		"1,,2 * * * *":                          "is incomplete",
		"1- * * * *":                            "is incomplete",
		"-1 * * * *":                            "is incomplete",
		"+1 * * * *":                            "is not understood",
		"0 0 ? * *":                             "?, L, W and # are not supported",
		"0 0 L * *":                             "?, L, W and # are not supported",
		"0 0 * * 5#2":                           "?, L, W and # are not supported",
		"0 0 * foo *":                           "is not understood",
		"":                                      "must not be empty",
		"TZ=UTC 0 * * * *":                      "time zone, which goes into a field of its own",
		strings.Repeat("1,", 200) + "1 * * * *": "is too long",
	} {
		_, err := New(client, Config{Source: "a", Schedules: []Schedule{{Name: "s", Spec: spec, Args: invoices{}}}})
		var refused *ConfigError
		if !errors.As(err, &refused) || refused.Field != "schedules[0].spec" || !strings.Contains(refused.Message, want) || !errors.Is(err, pgqueue.ErrInvalid) {
			t.Errorf("%q: %v", spec, err)
		}
	}
}

func TestWhatElseIsRefusedBeforeAnySQL(t *testing.T) {
	t.Parallel()
	client := pgqueuetest.New(t, pgqueuetest.WithoutMigrations()).Client(t)
	good := Schedule{Name: "s", Spec: "@daily", Args: invoices{}}
	for field, change := range map[string]func(*Config, *Schedule){
		"source":                         func(c *Config, _ *Schedule) { c.Source = "" },
		"poll":                           func(c *Config, _ *Schedule) { c.Poll = time.Hour },
		"timeout":                        func(c *Config, _ *Schedule) { c.Timeout = -1 },
		"concurrency":                    func(c *Config, _ *Schedule) { c.Concurrency = 101 },
		"schedules[0].name":              func(_ *Config, s *Schedule) { s.Name = "" },
		"schedules[1].name":              func(c *Config, s *Schedule) { c.Schedules = append(c.Schedules, *s) },
		"schedules[0].time_zone":         func(_ *Config, s *Schedule) { s.TimeZone = "Mars/Base" },
		"schedules[0].args":              func(_ *Config, s *Schedule) { s.Args = nil },
		"schedules[0].queue":             func(_ *Config, s *Schedule) { s.Options = append(s.Options, pgqueue.OnQueue("")) },
		"schedules[0].options":           func(_ *Config, s *Schedule) { s.Options = append(s.Options, pgqueue.WithDelay(time.Hour)) },
		"schedules[0].catch_up":          func(_ *Config, s *Schedule) { s.CatchUp = "some" },
		"schedules[0].catch_up_limit":    func(_ *Config, s *Schedule) { s.CatchUpLimit = 10_001 },
		"schedules[0].jitter":            func(_ *Config, s *Schedule) { s.Jitter = 25 * time.Hour },
		"schedules[0].payload.unwritten": func(_ *Config, s *Schedule) { s.Args = broken{} },
	} {
		config := Config{Source: "a", Schedules: []Schedule{good}}
		change(&config, &config.Schedules[0])
		_, err := New(client, config)
		var refused *ConfigError
		if !errors.As(err, &refused) || !strings.HasPrefix(field, refused.Field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := LoadZone("Local"); err == nil {
		t.Error("Local is another zone in each process")
	}
}

// broken is what encoding/json cannot write.
type broken struct{ invoices }

func (broken) MarshalJSON() ([]byte, error) { return nil, errors.New("unwritten") }
