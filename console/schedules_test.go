package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// putSchedule writes a schedule, as psql would.
func putSchedule(t testing.TB, db *pgqueuetest.DB, name, spec, zone string) {
	t.Helper()
	runSQL(t, db.Pool, `INSERT INTO pgqueue.schedules (name, spec, time_zone, kind, queue, payload) VALUES ($1, $2, $3, 'report', 'reports', '{"to": "board"}')`, name, spec, zone)
}

func TestTheSchedulesScreen(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	c.get("/schedules").want(t, http.StatusOK).tells(t, "No schedules")
	for _, name := range []string{"fine", "late", "broken", "resting", "retired", "over"} {
		putSchedule(t, db, name, "30 2 * * *", "America/New_York")
	}
	runSQL(t, db.Pool, `UPDATE pgqueue.schedules SET next_run_at = '2998-07-01 06:30Z', last_run_at = '2026-07-01 06:30Z', last_job_id = 17 WHERE name = 'fine'`)
	runSQL(t, db.Pool, `UPDATE pgqueue.schedules SET next_run_at = now() - interval '5 min' WHERE name = 'late'`)
	runSQL(t, db.Pool, `UPDATE pgqueue.schedules SET last_error = 'no <such> function', failures = 3 WHERE name = 'broken'`)
	runSQL(t, db.Pool, `UPDATE pgqueue.schedules SET enabled = false WHERE name = 'resting'`)
	runSQL(t, db.Pool, `UPDATE pgqueue.schedules SET retired_at = now(), source = 'billing' WHERE name = 'retired'`)
	runSQL(t, db.Pool, `UPDATE pgqueue.schedules SET next_run_at = 'infinity' WHERE name = 'over'`)
	page := c.get("/schedules").want(t, http.StatusOK)
	for name, words := range map[string]string{
		"fine": "scheduled", "late": "overdue", "broken": "failing", "resting": "disabled", "retired": "retired", "over": "over",
	} {
		if row := page.row(t, name+" "); !strings.Contains(row, " "+words+" ") {
			t.Errorf("%s: %q", name, row)
		}
	}
	if row := page.row(t, "fine"); !strings.Contains(row, "Sun 2998-07-01 02:30:00 EDT Sun 2998-07-01 06:30:00 UTC") || !strings.Contains(row, "job 17") {
		t.Errorf("fine: %q", row)
	}
	if row := page.row(t, "broken"); !strings.Contains(row, "no <such> function (3 in a row)") {
		t.Errorf("broken: %q", row)
	}
	c.get("/schedules?source=billing").want(t, http.StatusOK).tells(t, "retired").conceals(t, "resting disabled")

	runSQL(t, db.Pool, `INSERT INTO pgqueue.schedules (name, spec, kind) SELECT 'many ' || g, '@hourly', 'k' FROM generate_series(1, 250) g`)
	seen, path := 0, "/schedules"
	for pages := 0; path != "" && pages < 10; pages++ {
		page := c.get(path).want(t, http.StatusOK)
		seen += strings.Count(page.body, `data-label="Schedule"`)
		if path = ""; strings.Contains(page.body, ">Next page<") {
			path = c.link(page, "Next page")
		}
	}
	if seen != 256 {
		t.Errorf("%d schedules on all pages, want 256", seen)
	}
}

func TestASchedule(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	hide := func(config *Config) {
		config.Redact = func(_ context.Context, about Redaction, _ json.RawMessage) json.RawMessage {
			return json.RawMessage(fmt.Sprintf(`"hidden %s of %s in %s"`, about.Field, about.Kind, about.Queue))
		}
	}
	c, redacting := newConsole(t, db), newConsole(t, db, hide)
	putSchedule(t, db, "daily", "30 2 * * *", "Europe/Copenhagen")
	runSQL(t, db.Pool, `UPDATE pgqueue.schedules SET next_run_at = '2998-07-01 00:30Z' WHERE name = 'daily'`)
	runSQL(t, db.Pool, `INSERT INTO pgqueue.schedule_ticks (name, tick, enqueued_at, job_id)
		SELECT 'daily', t, t + interval '3 s', nullif(g, 5) FROM generate_series(1, 30) g, LATERAL (SELECT '2026-01-01 01:30Z'::timestamptz + g * interval '1 day' AS t) d`)
	page := c.get("/schedules/daily").want(t, http.StatusOK).tells(t, "30 2 * * *", "Europe/Copenhagen", `"to": "board"`, "reports", "The next ticks",
		"02:30:00 CEST", "2998-07-05 00:30:00 UTC", "Sat 2026-01-31 02:30:00 CET", "Sat 2026-01-31 01:30:00 UTC", "3.0 s", "nobody: it was made by hand")
	if n := strings.Count(page.body, `data-label="Tick"`); n != ticksPerPage {
		t.Errorf("%d ticks, want %d", n, ticksPerPage)
	}
	older := c.get(c.link(page, "Older ticks")).want(t, http.StatusOK).tells(t, "none: skipped", "Latest ticks")
	if n := strings.Count(older.body, `data-label="Tick"`); n != 10 {
		t.Errorf("%d older ticks, want 10", n)
	}
	c.get("/schedules/daily?before=x").want(t, http.StatusBadRequest)
	c.get("/schedules/none").want(t, http.StatusNotFound)
	redacting.get("/schedules/daily").want(t, http.StatusOK).tells(t, "hidden payload of report in reports").conceals(t, "board")
	runSQL(t, db.Pool, `UPDATE pgqueue.schedules SET last_error = 'for the board', failures = 1 WHERE name = 'daily'`)
	for _, path := range []string{"/schedules", "/schedules/daily"} {
		redacting.get(path).want(t, http.StatusOK).tells(t, "hidden message of report").conceals(t, "for the board")
	}
	runSQL(t, db.Pool, `ALTER TABLE pgqueue.schedules DISABLE TRIGGER ALL; UPDATE pgqueue.schedules SET spec = '0 25 * * *', time_zone = 'Mars/Olympus'`)
	c.get("/schedules/daily").want(t, http.StatusOK).tells(t, "It cannot be understood")
	c.get("/schedules").want(t, http.StatusOK).tells(t, "Mars/Olympus")
}

func TestASchedulesActions(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db, func(config *Config) { config.Prefix = "/x" })
	putSchedule(t, db, "daily", "30 2 * * *", "UTC")
	runSQL(t, db.Pool, `UPDATE pgqueue.schedules SET source = 'billing' WHERE name = 'daily'`)
	for _, action := range []string{"enable", "disable", "trigger", "delete", "spec"} {
		c.as(Viewer).get("/schedules/daily/confirm/"+action).want(t, http.StatusForbidden)
		c.as(Viewer).post("/schedules/daily/"+action, nil).want(t, http.StatusForbidden)
		c.get("/schedules/daily/"+action).want(t, http.StatusMethodNotAllowed)
		c.post("/schedules/daily/"+action, url.Values{"seen": {"1"}, "form": {strings.Repeat("f", 26)}, "spec": {"@daily"}}).want(t, http.StatusConflict)
		c.post("/schedules/none/"+action, url.Values{"seen": {"1"}, "form": {strings.Repeat("f", 26)}, "spec": {"@daily"}}).want(t, http.StatusNotFound)
		c.get("/schedules/none/confirm/"+action).want(t, http.StatusNotFound)
	}
	c.get("/schedules/daily/confirm/burn").want(t, http.StatusNotFound)
	if lines := audited(t, db.Pool); len(lines) != 0 {
		t.Fatalf("the audit log has %q", lines)
	}

	stale := c.get("/schedules/daily/confirm/disable").want(t, http.StatusOK).form(t, "/x/schedules/daily/disable")
	c.led(c.answer("/schedules/daily/confirm/disable", "/schedules/daily/disable", nil), "/schedules/daily?done=disable")
	c.get("/schedules/daily?done=disable").want(t, http.StatusOK).tells(t, "The schedule was disabled.", "It is disabled, and enqueues nothing")
	c.post("/schedules/daily/disable", stale).want(t, http.StatusConflict).tells(t, "The schedule was changed at")
	c.led(c.answer("/schedules/daily/confirm/enable", "/schedules/daily/enable", nil), "/schedules/daily?done=enable")

	// Another time: previewed, refused where it cannot be meant, and saved as it was previewed.
	edit := "/schedules/daily/confirm/spec"
	c.get(edit).want(t, http.StatusOK).tells(t, "A program has it in its code", "This is how it is now").conceals(t, "Save")
	c.get(edit+"?spec=0+25+*+*+*").want(t, http.StatusOK).tells(t, "The specification: ", "hour").conceals(t, "Save")
	c.get(edit+"?spec=@daily&time_zone=Mars").want(t, http.StatusOK).tells(t, "The time zone: ").conceals(t, "Save")
	c.get(edit+"?spec=%40at+2020-01-01T00:00:00Z").want(t, http.StatusOK).tells(t, "Never again: that instant has passed")
	preview := c.get(edit+"?spec=0+12+1+1+*&time_zone=Asia/Tokyo").want(t, http.StatusOK).tells(t, "12:00:00 JST", "03:00:00 UTC")
	if n := strings.Count(preview.body, `<li data-state="scheduled">`); n != ticksPreviewed {
		t.Errorf("%d ticks are previewed, want %d", n, ticksPreviewed)
	}
	form := preview.form(t, "/x/schedules/daily/spec")
	if seen := c.get(edit+"?spec=@daily&seen=7").form(t, "/x/schedules/daily/spec").Get("seen"); seen != "7" {
		t.Errorf("the preview forgets what was seen: %q", seen)
	}
	c.led(c.post("/schedules/daily/spec", form), "/schedules/daily?done=spec")
	c.get("/schedules/daily").want(t, http.StatusOK).tells(t, "0 12 1 1 *", "Asia/Tokyo")
	c.post("/schedules/daily/spec", form).want(t, http.StatusConflict)
	form = c.get(edit+"?spec=@daily").want(t, http.StatusOK).form(t, "/x/schedules/daily/spec")
	form.Set("spec", "60 * * * *")
	c.post("/schedules/daily/spec", form).want(t, http.StatusBadRequest).tells(t, "minute")

	c.get("/schedules/daily/confirm/delete").want(t, http.StatusOK).tells(t, `The program "billing" has it in its code`)
	c.led(c.answer("/schedules/daily/confirm/delete", "/schedules/daily/delete", nil), "/schedules?done=delete-schedule")
	c.get("/schedules/daily").want(t, http.StatusNotFound)

	want := []string{
		"olga console schedule_disable daily", "olga console schedule_enable daily", "olga console schedule_put daily spec 0 12 1 1 *, time zone Asia/Tokyo",
		"olga console schedule_delete daily",
	}
	if lines := audited(t, db.Pool); strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("the audit log has %q, want %q", lines, want)
	}
}

// A form that is sent many times triggers once; another form once more.
func TestC140_ATriggerHappensOnce(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	putSchedule(t, db, "daily", "30 2 * * *", "UTC")
	form := c.get("/schedules/daily/confirm/trigger").want(t, http.StatusOK).form(t, "/schedules/daily/trigger")
	answers := make([]*reply, 50)
	var all sync.WaitGroup
	for n := range answers {
		all.Go(func() { answers[n] = c.post("/schedules/daily/trigger", form) })
	}
	all.Wait()
	for _, answer := range answers {
		if to := answer.want(t, http.StatusSeeOther).header.Get("Location"); to != answers[0].header.Get("Location") {
			t.Errorf("one leads to %s, another to %s", to, answers[0].header.Get("Location"))
		}
	}
	if n, lines := countSQL(t, db.Pool, "pgqueue.jobs WHERE queue = 'reports'"), audited(t, db.Pool); n != 1 || len(lines) != 1 {
		t.Errorf("%d jobs and %q, want one each", n, lines)
	}
	c.get(answers[0].header.Get("Location")).want(t, http.StatusOK).tells(t, "It enqueued job ")
	c.answer("/schedules/daily/confirm/trigger", "/schedules/daily/trigger", nil).want(t, http.StatusSeeOther)
	if n := countSQL(t, db.Pool, `pgqueue.jobs WHERE metadata @> '{"schedule": "daily"}'`); n != 2 {
		t.Errorf("%d jobs, want two", n)
	}
	runSQL(t, db.Pool, `UPDATE pgqueue.schedules SET dynamic = true`)
	c.get("/schedules/daily/confirm/trigger").want(t, http.StatusConflict).tells(t, "Go function")
	c.get("/schedules/daily").want(t, http.StatusOK).tells(t, "A Go function of its program").conceals(t, "Trigger now")
	c.post("/schedules/daily/trigger", url.Values{"form": {"short"}}).want(t, http.StatusBadRequest)
}

func TestC134_HostileNamesOfSchedules(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	for _, name := range hostileNames() {
		runSQL(t, db.Pool, `INSERT INTO pgqueue.schedules (name, spec, kind, queue, source, payload, tags, last_error) VALUES ($1, '@daily', $1, $1, $1, to_jsonb($1::text), ARRAY[$1], $1)`, name)
	}
	list := c.get("/schedules").want(t, http.StatusOK)
	for _, name := range hostileNames() {
		path := "/schedules/" + segment(name)
		if !list.linksTo(path) {
			t.Errorf("the list has no link to %q, which is %s", name, path)
		}
		page := c.get(path).want(t, http.StatusOK).tells(t, strings.Join(strings.Fields("Schedule "+name), " "))
		for _, e := range elements(page.body) {
			if e.name == "img" || strings.Contains(e.shape(), " on") {
				t.Errorf("%q makes %s", name, e.shape())
			}
		}
		c.led(c.answer(path+"/confirm/disable", path+"/disable", nil), path+"?done=disable")
	}
	if n := countSQL(t, db.Pool, "pgqueue.schedules WHERE NOT enabled"); n != len(hostileNames()) {
		t.Errorf("%d schedules are disabled, want %d", n, len(hostileNames()))
	}
}

// roleWith makes a login role with some of the GRANTs of docs/roles.md, and a pool of its.
func roleWith(t *testing.T, db *pgqueuetest.DB, name string, grants ...string) *pgxpool.Pool {
	t.Helper()
	name = valueOf[string](t, db.Pool, `SELECT $1::text || '_' || current_database()`, name) // roles are those of the whole server
	runSQL(t, db.Pool, fmt.Sprintf(`CREATE ROLE %[1]q LOGIN; GRANT USAGE ON SCHEMA pgqueue TO %[1]q`, name))
	t.Cleanup(func() {
		if _, err := db.Pool.Exec(context.Background(), fmt.Sprintf(`DROP OWNED BY %[1]q; DROP ROLE %[1]q`, name)); err != nil {
			t.Error(err)
		}
	})
	for _, grant := range grants {
		runSQL(t, db.Pool, fmt.Sprintf(grant+` TO %q`, name))
	}
	config := db.Pool.Config()
	config.ConnConfig.User = name
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// viewerGrants are what docs/roles.md gives a viewer.
func viewerGrants() []string {
	return []string{
		`GRANT SELECT ON ALL TABLES IN SCHEMA pgqueue`,
		`GRANT EXECUTE ON FUNCTION pgqueue.queue_names(int), pgqueue.count_queues(text[], int), pgqueue.cached_stats(interval), pgqueue.why_not_running(bigint)`,
	}
}

// A console whose database role may only read shows all of it, and says what an action lacks.
func TestARoleThatMayOnlyRead(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	pool := roleWith(t, db, "reader", viewerGrants()...)
	c := newConsole(t, db, func(config *Config) { config.Pool = pool })
	putSchedule(t, db, "daily", "30 2 * * *", "UTC")
	for _, path := range []string{"/queues", "/queues/mail", "/kinds", "/schedules", "/schedules/daily", "/workers", "/database"} {
		c.get(path).want(t, http.StatusOK)
	}
	for path, post := range map[string]string{
		"/queues/mail/confirm/pause": "/queues/mail/pause", "/queues/mail/confirm/history": "/queues/mail/history", "/kinds/confirm/pause?kind=k": "/kinds/pause",
		"/schedules/daily/confirm/disable": "/schedules/daily/disable", "/schedules/daily/confirm/trigger": "/schedules/daily/trigger",
		"/schedules/daily/confirm/delete": "/schedules/daily/delete",
	} {
		c.answer(path, post, url.Values{"history": {"slim"}}).want(t, http.StatusForbidden).tells(t, "GRANTs")
	}
	if n := countSQL(t, db.Pool, "pgqueue.schedules WHERE enabled"); n != 1 {
		t.Error("the schedule was changed")
	}
}
