package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// Half a million dead jobs come back by way of the console: it shows what is meant, works in batches while nobody looks, is stopped in
// between and goes on from there, skips and names what cannot come back, and wakes no herd.
func TestC141_BulkRetryInTheConsole(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	n := 5_000
	if os.Getenv("PGQUEUE_TEST_FULL") == "1" {
		n = 500_000
	}
	deadJobs(t, db, 0, n, "dead", "default", "task", "timeout")
	// Five have a key that a newer live job has.
	runSQL(t, db.Pool, `UPDATE pgqueue.history SET key = 'K' || id WHERE id % ($1::int / 5) = 1`, n) // the first one, too
	runSQL(t, db.Pool, `INSERT INTO pgqueue.jobs (queue, kind, key) SELECT 'default', 'task', key FROM pgqueue.history WHERE key IS NOT NULL`)
	runSQL(t, db.Pool, `ANALYZE`)
	hints, err := pgx.Connect(t.Context(), db.DirectURL)
	if err != nil {
		t.Fatal(err)
	}
	defer hints.Close(context.Background())
	if _, err := hints.Exec(t.Context(), `LISTEN pgqueue`); err != nil {
		t.Fatal(err)
	}
	c := newConsole(t, db, func(config *Config) { config.Pool = impatient(t, db.Pool, "2s") })

	query := "action=retry&state=dead&queue=default&code=timeout"
	page := c.get("/bulk/confirm?"+query).want(t, http.StatusOK)
	if n > 10_000 {
		if !page.says("10,000+") {
			t.Errorf("the page does not say that it has stopped counting: %s", page.short())
		}
		page = c.get(c.link(page, "Count exactly")).want(t, http.StatusOK)
	}
	form := page.form(t, "/bulk")
	if form.Get("expected") != strconv.Itoa(n) {
		t.Fatalf("the page expects %q jobs, not %d: %s", form.Get("expected"), n, page.short())
	}
	form.Set("spread", "1h")
	form.Set("batch", "500")
	form.Set("pause", "1m") // so that it is between two batches when it is stopped
	// A double click begins one operation.
	var clicks sync.WaitGroup
	locations := make([]string, 4)
	for i := range locations {
		clicks.Go(func() { locations[i] = c.post("/bulk", form).want(t, http.StatusSeeOther).header.Get("Location") })
	}
	clicks.Wait()
	if slices.ContainsFunc(locations, func(l string) bool { return l != locations[0] }) || len(c.console.operations.list()) != 1 {
		t.Fatalf("a double click leads to %q", locations)
	}
	o := c.begun(c.post("/bulk", form))
	for o.snapshot().Result.Batches == 0 { // the page that people watch, which each load of shows more or the same
		c.partial(locations[0]).want(t, http.StatusOK)
	}
	if page := c.as(Viewer).get(locations[0]).want(t, http.StatusOK); !strings.Contains(page.body, ">499</p>") || strings.Contains(page.body, "/stop") {
		t.Errorf("a viewer sees %s", page.short())
	}
	c.as(Viewer).post(locations[0]+"/stop", nil).want(t, http.StatusForbidden)
	c.get(locations[0]+"/stop").want(t, http.StatusMethodNotAllowed)
	c.post(locations[0]+"/stop", nil).want(t, http.StatusSeeOther)
	first := ended(t, o)
	if first.State != operationStopped || first.StoppedBy != "olga" || first.Result.Matched != 500 || first.Cursor == "" {
		t.Fatalf("stopped: %+v", first)
	}
	if back := countSQL(t, db.Pool, "pgqueue.jobs WHERE attempt = 3"); back != first.Result.Done {
		t.Errorf("%d are back, %d were said to be", back, first.Result.Done)
	}
	// It goes on from the address that the page gives, at its own pace.
	resume := c.link(c.get(locations[0]).want(t, http.StatusOK), "Go on from there")
	form = c.get(resume).want(t, http.StatusOK).form(t, "/bulk")
	if form.Get("spread") != "1h0m0s" || form.Get("batch") != "500" || form.Get("resume") != first.Cursor {
		t.Errorf("the form to go on with holds %v", form)
	}
	form.Set("batch", "")
	form.Set("pause", "")
	o = c.begun(c.post("/bulk", form))
	rest := ended(t, o)
	if rest.State != operationDone || rest.Cursor != "" || first.Result.Done+rest.Result.Done != n-5 || first.Result.Skipped+rest.Result.Skipped != 5 {
		t.Fatalf("the rest: %+v", rest)
	}
	if history, jobs := countSQL(t, db.Pool, "pgqueue.history"), countSQL(t, db.Pool, "pgqueue.jobs"); history != 5 || jobs != n {
		t.Errorf("%d are left, %d are live", history, jobs)
	}
	// Conflicts are reported, with the job that has the key.
	shown := c.get("/operations/"+o.id).want(t, http.StatusOK).body
	for _, skip := range slices.Concat(first.Result.Skips, rest.Result.Skips) {
		if skip.Reason != pgqueue.SkipKeyTaken || skip.Other <= int64(n) {
			t.Errorf("skip %+v", skip)
		}
	}
	for _, skip := range rest.Result.Skips {
		if !strings.Contains(shown, fmt.Sprintf(`<a href="/jobs/%d">job %d</a>`, skip.Other, skip.Other)) {
			t.Errorf("the page does not name %+v", skip)
		}
	}
	if sent, batches := heard(t, hints, db.Pool), first.Result.Batches+rest.Result.Batches; sent > batches {
		t.Errorf("%d hints in %d batches of one queue", sent, batches)
	}
	if soon := countSQL(t, db.Pool, "pgqueue.jobs WHERE attempt = 3 AND run_at < now() + interval '30 minutes'"); soon < n/3 || soon > n*2/3 {
		t.Errorf("%d of %d are due in the first half of the hour", soon, n)
	}
	// The log names who began it, for each job.
	if told := countSQL(t, db.Pool, `(SELECT DISTINCT unnest(job_ids) FROM pgqueue.audit WHERE actor = 'olga' AND action = 'retry' AND via = 'console') x`); told != n-5 {
		t.Errorf("the audit log names %d jobs", told)
	}
	t.Logf("%d jobs came back in %s and %s", n-5, first.Ended.Sub(first.Started), rest.Ended.Sub(rest.Started))
}

// impatient is a pool whose role has a statement_timeout.
func impatient(t *testing.T, pool *pgxpool.Pool, timeout string) *pgxpool.Pool {
	t.Helper()
	config := pool.Config()
	config.ConnConfig.RuntimeParams["statement_timeout"] = timeout
	changed, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(changed.Close)
	return changed
}

// heard counts the hints that came before a mark, which is sent behind them.
func heard(t *testing.T, conn *pgx.Conn, pool *pgxpool.Pool) int {
	t.Helper()
	const mark = "the mark of this test"
	runSQL(t, pool, `SELECT pg_notify('pgqueue', $1)`, mark)
	for n := 0; ; n++ {
		notification, err := conn.WaitForNotification(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if notification.Payload == mark {
			return n
		}
	}
}

// Each action does what its page says, to what its page names.
// What is enqueued while somebody reads the page that asks was not counted there, and is not meant.
func TestABulkActionEndsWithWhatThePageKnew(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	placeJob(t, db, false)
	placeJob(t, db, false)
	page := c.get("/bulk/confirm?action=delete&queue=default").want(t, http.StatusOK)
	form := page.form(t, "/bulk")
	later := placeJob(t, db, false)
	form.Set("sure", "yes")
	state := ended(t, c.begun(c.post("/bulk", form)))
	if state.State != operationDone || state.Result.Done != 2 || countSQL(t, db.Pool, fmt.Sprintf("pgqueue.jobs WHERE id = %d", later)) != 1 {
		t.Errorf("%s, %+v; the later job is left: %d", state.State, state.Result, countSQL(t, db.Pool, "pgqueue.jobs"))
	}
}

func TestBulkActions(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	done := func(what string, state operationState, want pgqueue.BulkResult) {
		t.Helper()
		got := state.Result
		if state.State != operationDone || got.Done != want.Done || got.Asked != want.Asked || got.Skipped != want.Skipped {
			t.Errorf("%s: %s, %+v, %v", what, state.State, got, state.Err)
		}
	}
	pending, running := placeJob(t, db, false), placeJob(t, db, true)
	done("priority", ended(t, c.begin("action=set_priority", url.Values{"new_priority": {"4"}})), pgqueue.BulkResult{Done: 1})
	if n := countSQL(t, db.Pool, fmt.Sprintf("pgqueue.jobs WHERE id = %d AND priority = 4", pending)); n != 1 {
		t.Error("the priority is the old one")
	}
	done("reschedule", ended(t, c.begin("action=reschedule&queue=default", url.Values{"new_due": {"2050-01-02T03:04"}})), pgqueue.BulkResult{Done: 1})
	if n := countSQL(t, db.Pool, fmt.Sprintf("pgqueue.jobs WHERE id = %d AND run_at = '2050-01-02 03:04+00'", pending)); n != 1 {
		t.Error("the due time is the old one")
	}
	done("cancel", ended(t, c.begin("action=cancel", nil)), pgqueue.BulkResult{Done: 2, Asked: 1})

	// What runs is deleted only for those who say so twice.
	pending = placeJob(t, db, false)
	deadJobs(t, db, 1000, 3, "dead", "default", "task", "timeout")
	page := c.get("/bulk/confirm?action=delete&queue=default").want(t, http.StatusOK)
	form := page.form(t, "/bulk")
	if !strings.Contains(page.body, "Running ones, too") || form.Get("expected") != "5" { // the cancelled one, the pending one, and three
		t.Errorf("the page expects %q: %s", form.Get("expected"), page.short())
	}
	c.post("/bulk", form).want(t, http.StatusBadRequest)
	form.Set("sure", "yes")
	done("delete", ended(t, c.begun(c.post("/bulk", form))), pgqueue.BulkResult{Done: 5})
	if n := countSQL(t, db.Pool, fmt.Sprintf("pgqueue.jobs WHERE id IN (%d, %d)", pending, running)); n != 1 {
		t.Errorf("%d are left, not the one that runs", n)
	}
	form = c.get("/bulk/confirm?action=delete&state=running").want(t, http.StatusOK).form(t, "/bulk")
	form.Set("sure", "yes")
	c.post("/bulk", form).want(t, http.StatusBadRequest)
	form.Set("running", "yes")
	done("delete what runs", ended(t, c.begun(c.post("/bulk", form))), pgqueue.BulkResult{Done: 1})
	if n := countSQL(t, db.Pool, "pgqueue.jobs"); n != 0 {
		t.Errorf("%d are left", n)
	}

	// Of ticked jobs only those, whatever else there is.
	deadJobs(t, db, 2000, 5, "failed", "default", "task", "no_such_user")
	done("selection", ended(t, c.begin("scope=selection&action=retry&id=2002&id=2004&id=77", nil)), pgqueue.BulkResult{Done: 2})
	c.get("/bulk/confirm?scope=selection&action=retry").want(t, http.StatusBadRequest)
	done("purge", ended(t, c.begin("action=purge&queue=default&finished_to=now", url.Values{"sure": {"yes"}})), pgqueue.BulkResult{Done: 3})
	if n := countSQL(t, db.Pool, "pgqueue.history"); n != 0 {
		t.Errorf("%d are left", n)
	}
	if list := c.get("/operations").want(t, http.StatusOK).body; strings.Count(list, "<tr>") != 1+7 {
		t.Errorf("the list shows %d lines", strings.Count(list, "<tr>"))
	}
}

// What is wrong with a request is said before anything begins, and nothing is begun by those who may not.
func TestBulkRefusals(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	deadJobs(t, db, 0, 3, "dead", "default", "task", "timeout")
	for query, want := range map[string]string{
		"action=boil":                                   "no such bulk action",
		"":                                              "no such bulk action",
		"action=retry&state=pending":                    "failed or dead",
		"action=retry&spread=soon":                      "spread",
		"action=retry&spread=-1h":                       "spread",
		"action=retry&spread=1000h":                     "spread",
		"action=retry&pause=2h":                         "pause",
		"action=retry&batch=10001":                      "batch_size",
		"action=retry&batch=many":                       "batch",
		"action=retry&resume=nonsense":                  "cursor",
		"action=retry&id=x":                             "id",
		"action=retry&state=sad":                        "failed or dead",
		"action=retry&kind=" + longText(200):            "kind",
		"action=set_priority&new_priority=5":            "priority",
		"action=reschedule&new_due=tomorrow":            "new_due",
		"action=cancel&payload=" + url.QueryEscape("{"): "payload",
	} {
		if page := c.get("/bulk/confirm?"+query).want(t, http.StatusBadRequest); !strings.Contains(page.body, want) {
			t.Errorf("%s: %s", query, page.short())
		}
		form, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		form.Set("operation", c.console.operations.ticket("olga"))
		c.post("/bulk", form).want(t, http.StatusBadRequest)
	}
	viewer := c.as(Viewer)
	viewer.get("/bulk/confirm?action=retry").want(t, http.StatusForbidden)
	form := c.get("/bulk/confirm?action=retry").want(t, http.StatusOK).form(t, "/bulk")
	viewer.post("/bulk", form).want(t, http.StatusForbidden)
	c.as(0).post("/bulk", form).want(t, http.StatusUnauthorized)
	c.get("/bulk").want(t, http.StatusMethodNotAllowed)
	for _, ticket := range []string{"", "abc", c.console.operations.ticket("mallory")} {
		form.Set("operation", ticket)
		c.post("/bulk", form).want(t, http.StatusConflict)
	}
	if n := countSQL(t, db.Pool, "pgqueue.history"); n != 3 || len(c.console.operations.list()) != 0 {
		t.Errorf("%d are dead", n)
	}
	c.get("/operations/nothing").want(t, http.StatusNotFound)
	c.post("/operations/nothing/stop", nil).want(t, http.StatusNotFound)
	if page := c.get("/bulk/confirm?action=retry").want(t, http.StatusOK); !strings.Contains(page.body, "all queues") {
		t.Errorf("the page does not warn: %s", page.short())
	}
}

func longText(n int) string { return strings.Repeat("k", n) }

// What breaks while an operation runs is shown, and does not keep it from being gone on with.
func TestAnOperationThatFails(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db, func(config *Config) { config.Logger = nil }) // it logs the error, as it should
	deadJobs(t, db, 0, 40, "dead", "default", "task", "timeout")
	runSQL(t, db.Pool, `CREATE FUNCTION public.full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF OLD.id > 20 THEN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END IF; RETURN OLD; END $$;
		CREATE TRIGGER "full" BEFORE DELETE ON pgqueue.history_attention FOR EACH ROW EXECUTE FUNCTION public.full()`)
	o := c.begin("action=purge&state=dead", url.Values{"sure": {"yes"}, "batch": {"10"}})
	end := ended(t, o)
	if end.State != operationFailed || end.Result.Done != 20 || end.Cursor == "" {
		t.Fatalf("ended as %+v", end)
	}
	page := c.get("/operations/"+o.id).want(t, http.StatusOK)
	if !strings.Contains(page.body, "no space left (53100)") {
		t.Errorf("the page says %s", page.short())
	}
	runSQL(t, db.Pool, `DROP TRIGGER "full" ON pgqueue.history_attention`)
	form := c.get(c.link(page, "Go on from there")).want(t, http.StatusOK).form(t, "/bulk")
	form.Set("sure", "yes")
	if end := ended(t, c.begun(c.post("/bulk", form))); end.State != operationDone || end.Result.Done != 20 {
		t.Errorf("the rest: %+v", end)
	}
}

// The end of the console ends its operations, and no later request begins one.
func TestClosingTheConsoleStopsOperations(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	c := newConsole(t, db)
	deadJobs(t, db, 0, 30, "dead", "default", "task", "timeout")
	form := c.get("/bulk/confirm?action=retry").want(t, http.StatusOK).form(t, "/bulk")
	o := c.begin("action=retry", url.Values{"batch": {"10"}, "pause": {"1m"}})
	for o.snapshot().Result.Batches == 0 {
		c.get("/operations/"+o.id).want(t, http.StatusOK)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.console.Close(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case <-o.done:
	default:
		t.Error("it still runs")
	}
	if end := o.snapshot(); end.State != operationStopped || end.Result.Done != 10 || end.Cursor == "" {
		t.Errorf("ended as %+v", end)
	}
	c.post("/bulk", form).want(t, http.StatusServiceUnavailable)
	if n := countSQL(t, db.Pool, "pgqueue.jobs"); n != 10 {
		t.Errorf("%d are back", n)
	}
}

// An address says the same action again: what a form is made of, what a page links to, and what somebody keeps to go on with.
func TestABulkActionInAnAddress(t *testing.T) {
	t.Parallel()
	for _, query := range []string{
		"action=retry", "action=retry&spread=10m&batch=7&pause=1s&resume=abc", "action=delete&state=dead&state=running", "action=delete&running=yes",
		"action=reschedule&new_due=2030-01-02T03:04:05Z&spread=1h", "action=set_priority&new_priority=3&id=4&id=5",
		"action=purge&queue=a/b&kind=k&key=%C3%BC&tag=x&tag=y&priority=2&min_id=3&max_id=9&created_from=-1h&created_to=now&finished_to=-7d&code=c&worker=w&payload=%7B%22a%22:1%7D",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		b, err := parseBulk(values)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		again, err := parseBulk(b.query())
		if err != nil || fmt.Sprintf("%+v", again.query()) != fmt.Sprintf("%+v", b.query()) || again.Spared != b.Spared ||
			fmt.Sprintf("%+v", again.Filter) != fmt.Sprintf("%+v", utc(b.Filter)) {
			t.Errorf("%s:\n%+v\n%+v, %v", query, b, again, err)
		}
	}
	for _, c := range []struct {
		query, states string
	}{
		{"action=retry", "[failed dead]"}, {"action=retry&state=dead&state=pending", "[dead]"}, {"action=set_priority", "[pending]"},
		{"action=set_priority&id=1", "[pending running failed dead]"}, {"action=delete&id=1", "[pending succeeded failed dead cancelled]"},
		{"action=delete&state=dead&running=yes", "[dead running]"}, {"action=retry&running=yes", "[failed dead]"},
	} {
		values, _ := url.ParseQuery(c.query)
		b, err := parseBulk(values)
		if err != nil || fmt.Sprint(b.Filter.States) != c.states {
			t.Errorf("%s means %v, %v", c.query, b, err)
		}
	}
}

// utc is a filter with its times as addresses have them.
func utc(f pgqueue.Filter) pgqueue.Filter {
	for _, span := range []*pgqueue.TimeRange{&f.Created, &f.Finished, &f.Due} {
		for _, at := range []*time.Time{&span.From, &span.To} {
			if !at.IsZero() {
				*at = at.UTC().Round(0)
			}
		}
	}
	return f
}

// A filter may hold somebody's data. It is in no log, and who sees no payloads does not see it either.
func TestC142_TheFilterOfAnOperation(t *testing.T) {
	t.Parallel()
	db := pgqueuetest.New(t)
	var log lockedBuffer
	c := newConsole(t, db, func(config *Config) {
		config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		config.Redact = func(context.Context, Redaction, json.RawMessage) json.RawMessage {
			return json.RawMessage(`"kept back"`)
		}
	})
	deadJobs(t, db, 0, 20, "dead", "mail", "send", "timeout")
	runSQL(t, db.Pool, `UPDATE pgqueue.history SET payload = '{"ssn": "MARK"}'`)
	o := c.begin("action=retry&queue=mail&payload_path=ssn&payload_value=MARK", url.Values{"batch": {"5"}, "pause": {"1m"}})
	for o.snapshot().Result.Batches == 0 {
		c.get("/operations/"+o.id).want(t, http.StatusOK)
	}
	o.stop("olga")
	ended(t, o)
	for _, path := range []string{"/operations", "/operations/" + o.id, "/audit"} {
		if page := c.as(Viewer).get(path).want(t, http.StatusOK); strings.Contains(page.body, "MARK") {
			t.Errorf("%s shows it: %s", path, page.body)
		}
	}
	if page := c.as(Viewer).get("/operations/" + o.id); !page.says("kept back") {
		t.Errorf("it is not said that there is such a condition: %s", page.body)
	}
	if text := log.String(); strings.Contains(text, "MARK") || !strings.Contains(text, "cursor=") {
		t.Errorf("the log: %s", text)
	}
}

// lockedBuffer is a buffer for the log of several goroutines.
type lockedBuffer struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (b *lockedBuffer) Write(line []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.Write(line)
}

func (b *lockedBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.String()
}
