package schedule

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

var update = flag.Bool("update", false, "write the table of docs/schedules.md")

const guide = "../docs/schedules.md"

// The table in the guide is what the code does.
func TestTheTableOfTheGuide(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("| zone | specification | day | ticks, by the clock on the wall |\n|---|---|---|---|\n")
	for _, c := range []struct{ zone, spec, day string }{
		{"America/New_York", "30 2 * * *", "2026-03-08"}, {"America/New_York", "*/30 2 * * *", "2026-03-08"}, {"America/New_York", "0 * * * *", "2026-03-08"},
		{"America/New_York", "30 1 * * *", "2026-11-01"}, {"America/New_York", "0 * * * *", "2026-11-01"}, {"America/New_York", "*/15 1 * * *", "2026-11-01"},
		{"America/Havana", "0 0 * * *", "2026-03-08"}, {"Europe/Dublin", "30 1 * * *", "2026-03-29"}, {"Europe/Dublin", "30 1 * * *", "2026-10-25"},
		{"Australia/Lord_Howe", "45 1 * * *", "2026-04-05"}, {"Australia/Lord_Howe", "15 2 * * *", "2026-10-04"},
		{"Africa/Casablanca", "30 2 * * *", "2026-02-15"}, {"Africa/Casablanca", "30 2 * * *", "2026-03-22"}, {"Antarctica/Troll", "30 1 * * *", "2026-03-29"},
		{"Pacific/Apia", "0 9 * * *", "2011-12-31"},
	} {
		day, err := time.Parse("2006-01-02", c.day)
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, tick := range between(t, c.spec, c.zone, c.day+" 00:00", day.AddDate(0, 0, 1).Format("2006-01-02")+" 00:00") {
			words = append(words, tick[11:])
		}
		if n := len(words); n > 9 {
			words = append(append(words[:3:3], "…"), fmt.Sprintf("%s (%d)", words[n-1], n))
		}
		fmt.Fprintf(&table, "| %s | `%s` | %s | %s |\n", c.zone, c.spec, c.day, strings.Join(words, ", "))
	}
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), "-update -->\n")
	_, after, ok2 := strings.Cut(rest, "<!-- end -->")
	if !ok1 || !ok2 {
		t.Fatal("the guide has no place for the table")
	}
	want := before + "-update -->\n" + table.String() + "<!-- end -->" + after
	if *update {
		if err := os.WriteFile(guide, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("the guide's table is not what the code does; run with -update:\n%s", table.String())
	}
}

// The recipes of the guide, as they stand.
func TestTheSQLOfTheGuide(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "2021-01-01 00:00:00Z")
	w.exec("INSERT INTO pgqueue.schedule_ticks (name, tick) VALUES ('nightly report', now())")
	// What is wrong with another schedule is not in the way.
	w.exec("INSERT INTO pgqueue.schedules (name, spec, time_zone, kind, next_run_at) VALUES ('of Mars', '@daily', 'Mars/Base', 'k', now())")
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, block := range strings.Split(string(text), "```sql\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if strings.Contains(block, "GRANT") {
			continue // TestTheGrantsOfASchedulerAreEnough
		}
		for statement := range strings.SplitSeq(block, ";\n") {
			if strings.TrimSpace(statement) == "" {
				continue
			}
			tag, err := w.db.Pool.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol)
			if err != nil {
				t.Errorf("%s: %v", statement, err)
			} else if !tag.Select() && tag.RowsAffected() != 1 {
				t.Errorf("%s: %s", statement, tag)
			}
			ran++
		}
	}
	if ran < 10 {
		t.Errorf("%d statements", ran)
	}
}
