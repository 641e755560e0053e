package console

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/pgqueuetest"
)

// documentedConsole is a console that connects as the role which docs/roles.md makes for it, on a server of the test's own.
func documentedConsole(t *testing.T) (*pgqueuetest.DB, *testConsole) {
	t.Helper()
	db := pgqueuetest.NewServer(t).DB(t)
	text, err := os.ReadFile("../docs/roles.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(text), "```sql\n")[1:] {
		sql, _, _ := strings.Cut(block, "```")
		runSQL(t, db.Pool, sql)
	}
	config := db.Pool.Config()
	config.ConnConfig.User = "console"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return db, newConsole(t, db, func(config *Config) { config.Pool = pool })
}

// With the rights of docs/roles.md, and none beside, an operator can do everything that the console offers.
func TestTheDocumentedRoleCanDoEverything(t *testing.T) {
	t.Parallel()
	db, c := documentedConsole(t)
	putSchedule(t, db, "daily", "30 2 * * *", "UTC")
	done := map[string]bool{} // by route
	act := func(route, confirm, post string, change url.Values) {
		t.Helper()
		done[route] = true
		if reply := c.answer(confirm, post, change); reply.status != http.StatusSeeOther {
			t.Errorf("POST %s: status %d: %s", post, reply.status, reply.shownText())
		}
	}
	states := map[string][]pgqueue.JobState{}
	for _, action := range jobActions() {
		states[action.name] = action.states
	}
	id := int64(100)
	for name, form := range actionForms() {
		for _, state := range states[name] {
			id++
			jobIn(t, db.Pool, id, state)
			if name == "delete" && state == pgqueue.JobRunning {
				form = url.Values{"running": {"yes"}}
			}
			path := fmt.Sprintf("/jobs/%d/", id)
			act("/jobs/{id}/"+name, path+"confirm/"+name, path+name, form)
		}
	}
	for _, one := range []struct{ route, confirm, query string }{
		{"/queues/{queue}/pause", "/queues/mail/confirm/pause", ""},
		{"/queues/{queue}/resume", "/queues/mail/confirm/resume", ""},
		{"/queues/{queue}/history", "/queues/news/confirm/history", ""},
		{"/kinds/pause", "/kinds/confirm/pause", "?kind=k"},
		{"/kinds/resume", "/kinds/confirm/resume", "?kind=k"},
		{"/schedules/{name}/disable", "/schedules/daily/confirm/disable", ""},
		{"/schedules/{name}/enable", "/schedules/daily/confirm/enable", ""},
		{"/schedules/{name}/trigger", "/schedules/daily/confirm/trigger", ""},
		{"/schedules/{name}/spec", "/schedules/daily/confirm/spec", "?spec=@daily"},
		{"/schedules/{name}/delete", "/schedules/daily/confirm/delete", ""},
	} {
		change := url.Values{}
		if strings.HasSuffix(one.route, "/history") {
			change.Set("history", "slim")
		}
		act(one.route, one.confirm+one.query, strings.Replace(one.confirm, "/confirm", "", 1), change)
	}
	id += 1000 // behind the job that the schedule has enqueued
	for i, kind := range bulkKinds() {
		queue := fmt.Sprintf("bulk%d", i)
		for _, state := range kind.can {
			id++
			jobIn(t, db.Pool, id, state)
			for _, table := range []string{"jobs", "history"} {
				runSQL(t, db.Pool, `UPDATE pgqueue.`+table+` SET queue = $1 WHERE id = $2`, queue, id)
			}
		}
		form := url.Values{"sure": {"yes"}}
		if kind.Due {
			form.Set("new_due", "2998-01-01T00:00")
		}
		if kind.Priority {
			form.Set("new_priority", "4")
		}
		o := c.begin("action="+string(kind.Name)+"&queue="+queue, form)
		if end := ended(t, o); end.State != operationDone || end.Result.Done == 0 || end.Result.Skipped > 0 {
			t.Errorf("%s: %+v", kind.Title, end)
		}
		c.post("/operations/"+o.id+"/stop", nil).want(t, http.StatusSeeOther)
	}
	done["/bulk"], done["/operations/{operation}/stop"] = true, true
	for _, route := range c.console.routes() {
		if route.method == http.MethodPost && !done[route.path] {
			t.Errorf("POST %s is not tried here; those that are: %q", route.path, slices.Sorted(maps.Keys(done)))
		}
	}
	for _, path := range []string{"/", "/jobs", "/attention", "/operations", "/queues", "/queues/mail", "/kinds", "/schedules", "/workers", "/database", "/performance", "/audit"} {
		c.get(path).want(t, http.StatusOK)
	}
}
