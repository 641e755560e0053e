package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/schedule"
)

func schedulesRoutes() []route {
	return []route{
		{http.MethodGet, "/schedules", Viewer, listSchedules},
		{http.MethodGet, "/schedules/{name}", Viewer, showSchedule},
		{http.MethodGet, "/schedules/{name}/confirm/{action}", Operator, confirmScheduleAction},
		{http.MethodGet, "/schedules/{name}/confirm/spec", Operator, editSchedule},
		{http.MethodPost, "/schedules/{name}/enable", Operator, enableSchedule},
		{http.MethodPost, "/schedules/{name}/disable", Operator, disableSchedule},
		{http.MethodPost, "/schedules/{name}/trigger", Operator, triggerSchedule},
		{http.MethodPost, "/schedules/{name}/delete", Operator, deleteSchedule},
		{http.MethodPost, "/schedules/{name}/spec", Operator, setScheduleSpec},
	}
}

// How much of schedules a page shows.
const (
	schedulesPerPage = 100
	ticksPerPage     = 20
	ticksPreviewed   = 5
	schedulePayload  = 64 << 10
)

// overdueAfter is how late a tick may be before a page says so; the doctor's schedule-overdue is as patient.
const overdueAfter = time.Minute

// scheduleView is a schedule as the screens show it.
type scheduleView struct {
	schedule.Stored
	Error string // its last error as the one who asks may see it
	Now   time.Time
	path  string
}

func (r *request) newScheduleView(stored schedule.Stored, now time.Time) scheduleView {
	return scheduleView{
		Stored: stored, Now: now, path: "/schedules/" + segment(stored.Name),
		Error: r.shownMessage(Redaction{Kind: stored.Kind, Queue: stored.Queue}, stored.LastError),
	}
}

// Path is the address of its page.
func (s scheduleView) Path() string { return s.path }

// Confirm is the address of the page that asks before an action.
func (s scheduleView) Confirm(action string) string { return s.path + "/confirm/" + action }

// State is a word for a badge, and Label what it says.
func (s scheduleView) State() string {
	switch {
	case !s.RetiredAt.IsZero():
		return "gone"
	case s.LastError != "":
		return "error"
	case !s.Enabled:
		return "paused"
	case s.Ended:
		return "succeeded"
	case s.Overdue():
		return "warning"
	default:
		return "scheduled"
	}
}

// Label says the state in words of schedules.
func (s scheduleView) Label() string {
	return map[string]string{
		"gone": "retired", "error": "failing", "paused": "disabled", "succeeded": "over", "warning": "overdue", "scheduled": "scheduled",
	}[s.State()]
}

// Overdue says that a tick has passed and nobody enqueued its job, by the database's clock.
func (s scheduleView) Overdue() bool {
	return s.Enabled && s.RetiredAt.IsZero() && !s.NextRunAt.IsZero() && s.NextRunAt.Before(s.Now.Add(-overdueAfter))
}

// Next is the next tick. A schedule that rests has none.
func (s scheduleView) Next() tickView {
	if !s.Enabled || !s.RetiredAt.IsZero() || s.Ended {
		return tickView{}
	}
	return newTickView(s.NextRunAt, s.TimeZone)
}

// Last is the latest tick that was.
func (s scheduleView) Last() tickView { return newTickView(s.LastRunAt, s.TimeZone) }

// tickView is an instant, in a zone and in UTC.
type tickView struct {
	At    time.Time
	Local string // by the clock on the wall there; empty where the zone is UTC, or not known
}

func newTickView(at time.Time, zone string) tickView {
	view := tickView{At: at}
	if location, err := schedule.LoadZone(zone); err == nil && location != time.UTC && zone != "UTC" && !at.IsZero() {
		view.Local = at.In(location).Format("Mon 2006-01-02 15:04:05 MST")
	}
	return view
}

// UTC is the instant in UTC; empty where there is none.
func (t tickView) UTC() string {
	if t.At.IsZero() {
		return ""
	}
	return t.At.UTC().Format("Mon 2006-01-02 15:04:05 UTC")
}

// databaseNow is the database's clock, by which all times of schedules are.
func (r *request) databaseNow() (now time.Time, err error) {
	err = r.console.config.Pool.QueryRow(r.Context(), statementsOf(r.console.config.Schema)["clock"]).Scan(&now)
	if err != nil {
		return now, fmt.Errorf("ask for the time: %w", err)
	}
	return now, nil
}

// schedulesPage is what schedules.html shows.
type schedulesPage struct {
	Rows   []scheduleView
	Source string // only schedules of this program
	Sifted bool
	Next   string // address of the next page; empty: there is none
	Start  string
}

func listSchedules(r *request) error {
	query := r.URL.Query()
	filter := schedule.ListFilter{After: query.Get("after"), Limit: schedulesPerPage + 1}
	page := &schedulesPage{}
	if query.Has("source") && query.Get("source") != "" {
		page.Source, page.Sifted = query.Get("source"), true
		filter.Source = &page.Source
	}
	now, err := r.databaseNow()
	if err != nil {
		return err
	}
	stored, err := r.console.editor.List(r.Context(), r.console.config.Pool, filter)
	if err != nil {
		return err
	}
	address := func(after string) string {
		query := url.Values{}
		if page.Sifted {
			query.Set("source", page.Source)
		}
		if after != "" {
			query.Set("after", after)
		}
		return r.url("/schedules", query)
	}
	if filter.After != "" {
		page.Start = address("")
	}
	if len(stored) > schedulesPerPage {
		stored = stored[:schedulesPerPage]
		page.Next = address(stored[len(stored)-1].Name)
	}
	for i := range stored {
		page.Rows = append(page.Rows, r.newScheduleView(stored[i], now))
	}
	r.live()
	return r.page(http.StatusOK, "schedules", "schedules", "Schedules", page)
}

// schedulePage is what schedules_one.html shows.
type schedulePage struct {
	scheduleView
	Payload  pgqueue.Excerpt
	Metadata pgqueue.Excerpt
	Coming   []tickView // the next ticks, where it has any
	Wrong    string     // why its specification or zone cannot be understood
	Ticks    []pastTickView
	Older    string // address of the page with older ticks; empty: there are none
	Latest   string // address of the page with the latest ticks; empty: this is it
	Job      string // address of the job that was just triggered
	JobID    int64
}

type pastTickView struct {
	tickView
	EnqueuedAt time.Time
	Late       time.Duration
	JobID      int64
}

func showSchedule(r *request) error {
	name, query := r.PathValue("name"), r.URL.Query()
	now, err := r.databaseNow()
	if err != nil {
		return err
	}
	stored, err := r.console.editor.Get(r.Context(), r.console.config.Pool, name)
	if err != nil {
		return err
	}
	var before time.Time
	if text := query.Get("before"); text != "" {
		if before, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return badRequest("The page begins before no time.")
		}
	}
	ticks, err := r.console.editor.Ticks(r.Context(), r.console.config.Pool, name, before, ticksPerPage+1)
	if err != nil {
		return err
	}
	about := Redaction{Kind: stored.Kind, Queue: stored.Queue, Field: "payload"}
	page := &schedulePage{scheduleView: r.newScheduleView(stored, now), Payload: r.shown(about, stored.Payload, schedulePayload)}
	about.Field = "metadata"
	page.Metadata = r.shown(about, stored.Metadata, schedulePayload)
	page.Coming, page.Wrong = comingTicks(page.scheduleView)
	if !before.IsZero() {
		page.Latest = r.url(page.path, nil)
	}
	if len(ticks) > ticksPerPage {
		ticks = ticks[:ticksPerPage]
		page.Older = r.url(page.path, url.Values{"before": {ticks[len(ticks)-1].At.UTC().Format(time.RFC3339Nano)}})
	}
	for _, tick := range ticks {
		page.Ticks = append(page.Ticks, pastTickView{newTickView(tick.At, stored.TimeZone), tick.EnqueuedAt, max(tick.EnqueuedAt.Sub(tick.At), 0), tick.JobID})
	}
	if id, err := strconv.ParseInt(query.Get("job"), 10, 64); err == nil && query.Get("done") == "trigger" {
		page.JobID, page.Job = id, r.url("/jobs/"+strconv.FormatInt(id, 10), nil)
	}
	r.live()
	return r.page(http.StatusOK, "schedules_one", "schedules", "Schedule "+name, page)
}

// comingTicks are the next ticks of a schedule as it stands, or what is wrong with it.
func comingTicks(s scheduleView) (ticks []tickView, wrong string) {
	spec, err := schedule.Parse(s.Spec)
	if err != nil {
		return nil, err.Error()
	}
	zone, err := schedule.LoadZone(s.TimeZone)
	if err != nil {
		return nil, err.Error()
	}
	if s.Next().At.IsZero() {
		return nil, ""
	}
	ticks = []tickView{s.Next()}
	for at := s.NextRunAt; len(ticks) < ticksPreviewed; {
		next, ok := spec.Next(at, zone, s.CreatedAt)
		if !ok {
			break
		}
		ticks = append(ticks, newTickView(next, s.TimeZone))
		at = next
	}
	return ticks, ""
}

// seenSchedule names the state of a schedule that somebody looked at. The time of its last change is that: a trigger of the table keeps
// it for changes from anywhere, and ticks do not touch it.
func seenSchedule(stored schedule.Stored) string {
	return strconv.FormatInt(stored.UpdatedAt.UnixMicro(), 10)
}

// lockSchedule locks a schedule, and refuses where it is another than the one that was seen.
func (r *request) lockSchedule(tx pgx.Tx, name string) error {
	var updated time.Time
	err := tx.QueryRow(r.Context(), statementsOf(r.console.config.Schema)["lock_schedule"], name).Scan(&updated)
	switch {
	case err != nil && err != pgx.ErrNoRows:
		return fmt.Errorf("lock the schedule: %w", err)
	case err != nil:
		return fmt.Errorf("schedule %q: %w", name, schedule.ErrNoSchedule)
	case r.PostFormValue("seen") != seenSchedule(schedule.Stored{UpdatedAt: updated}):
		return conflict("The schedule was changed at " + utcText(updated) + ", after you looked at it, and nothing was done. Look again, and decide anew.")
	}
	return nil
}
