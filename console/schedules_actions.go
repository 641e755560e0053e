package console

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
	"github.com/pgqueue/pgqueue/schedule"
)

// confirmScheduleAction asks before an action on a schedule.
func confirmScheduleAction(r *request) error {
	name, action := r.PathValue("name"), r.PathValue("action")
	stored, err := r.console.editor.Get(r.Context(), r.console.config.Pool, name)
	if err != nil {
		return err
	}
	path := "/schedules/" + segment(name)
	confirm := &controlConfirm{
		Back: path, Post: path + "/" + action, Hidden: []controlFact{{"seen", seenSchedule(stored)}},
		Facts: []controlFact{{"Specification", stored.Spec}, {"Time zone", stored.TimeZone}, {"Kind", stored.Kind}, {"Queue", stored.Queue}},
	}
	switch action {
	case "enable":
		confirm.Title, confirm.Button = "Enable schedule "+name, "Enable"
		confirm.Effect = []string{"It goes on with the next tick from now. What it rested through is not caught up."}
		if stored.Enabled {
			confirm.Warning = "It is enabled already."
		}
	case "disable":
		confirm.Title, confirm.Button = "Disable schedule "+name, "Disable"
		confirm.Effect = []string{"It enqueues nothing until it is enabled, whatever is restarted or deployed. Its jobs stay."}
		if !stored.Enabled {
			confirm.Warning = "It is disabled already."
		}
	case "trigger":
		confirm.Title, confirm.Button = "Trigger schedule "+name+" now", "Enqueue a job"
		confirm.Effect = []string{"One job is enqueued now, beside its ticks, which stay as they are."}
		// The job is enqueued once for this form, however often it is sent.
		confirm.Hidden = append(confirm.Hidden, controlFact{"form", rand.Text()})
		if stored.Dynamic {
			return explain(schedule.ErrNeedsProgram)
		}
	case "delete":
		confirm.Title, confirm.Button, confirm.Danger = "Delete schedule "+name, "Delete", true
		confirm.Effect = []string{"It is gone, with its place in time. Its jobs stay."}
		if stored.Source != "" {
			confirm.Warning = "The program " + strconv.Quote(stored.Source) + " has it in its code: it comes back when a process of that starts. Disable it instead."
		}
	default:
		return notFound("There is no such action on a schedule.")
	}
	return r.page(http.StatusOK, "queues_confirm", "schedules", confirm.Title, confirm)
}

// changeSchedule does something to the schedule that was seen, and records it; both become true, or neither.
func (r *request) changeSchedule(action pgqueue.Action, detail string, do func(ctx context.Context, tx pgx.Tx, name string) error) error {
	name := r.PathValue("name")
	entry := pgqueue.AuditEntry{Action: action, Subject: name, Detail: detail}
	return r.inspector().Record(r.Context(), entry, func(tx pgx.Tx) error {
		if err := r.lockSchedule(tx, name); err != nil {
			return err
		}
		return do(r.Context(), tx, name)
	})
}

// backToSchedule is the answer to an action that left the schedule where it is.
func (r *request) backToSchedule(query url.Values) error {
	return r.redirect("/schedules/"+segment(r.PathValue("name")), query)
}

func enableSchedule(r *request) error {
	err := r.changeSchedule(pgqueue.ActionScheduleEnable, "", func(ctx context.Context, tx pgx.Tx, name string) error {
		return r.console.editor.Enable(ctx, tx, name)
	})
	if err != nil {
		return err
	}
	return r.backToSchedule(url.Values{"done": {"enable"}})
}

func disableSchedule(r *request) error {
	err := r.changeSchedule(pgqueue.ActionScheduleDisable, "", func(ctx context.Context, tx pgx.Tx, name string) error {
		return r.console.editor.Disable(ctx, tx, name)
	})
	if err != nil {
		return err
	}
	return r.backToSchedule(url.Values{"done": {"disable"}})
}

func deleteSchedule(r *request) error {
	err := r.changeSchedule(pgqueue.ActionScheduleDelete, "", func(ctx context.Context, tx pgx.Tx, name string) error {
		return r.console.editor.Delete(ctx, tx, name)
	})
	if err != nil {
		return err
	}
	return r.redirect("/schedules", url.Values{"done": {"delete-schedule"}})
}

// keepForm is how long a form is remembered that has triggered a schedule.
const keepForm = 24 * time.Hour

// triggerSchedule enqueues one job for one form: a double click, a reload or a proxy that asks again finds the job that is there.
func triggerSchedule(r *request) error {
	form, name := r.PostFormValue("form"), r.PathValue("name")
	if len(form) < 20 || len(form) > 100 {
		return badRequest("The form is not one of the console's.")
	}
	var enqueued pgqueue.Enqueued
	err := r.inspector().RecordResult(r.Context(), func(tx pgx.Tx) (entry pgqueue.AuditEntry, err error) {
		if err = r.lockSchedule(tx, name); err != nil {
			return entry, err
		}
		enqueued, err = r.console.editor.TriggerNow(r.Context(), tx, name, pgqueue.WithIdempotencyKey("console form "+form, keepForm))
		if err == nil && enqueued.Outcome != pgqueue.Duplicate {
			entry = pgqueue.AuditEntry{Action: pgqueue.ActionScheduleTrigger, Subject: name, Jobs: []int64{enqueued.ID}}
		}
		return entry, err
	})
	if err != nil {
		return err
	}
	return r.backToSchedule(url.Values{"done": {"trigger"}, "job": {strconv.FormatInt(enqueued.ID, 10)}})
}

// scheduleEdit is what schedules_edit.html shows: two forms, one that previews and one that saves what was previewed.
type scheduleEdit struct {
	scheduleView
	NewSpec, NewZone string
	Field            string // which of the two is wrong, and why
	Wrong            string
	Ticks            []tickView
	Seen             string
	Changed          bool // it is another than what stands there
	FromSource       bool
}

// editSchedule asks for another time of a schedule, and says when that would be before it is saved.
func editSchedule(r *request) error {
	stored, err := r.console.editor.Get(r.Context(), r.console.config.Pool, r.PathValue("name"))
	if err != nil {
		return err
	}
	now, err := r.databaseNow()
	if err != nil {
		return err
	}
	query := r.URL.Query()
	edit := &scheduleEdit{scheduleView: r.newScheduleView(stored, now), NewSpec: stored.Spec, NewZone: stored.TimeZone, Seen: seenSchedule(stored), FromSource: stored.Source != ""}
	if query.Has("spec") {
		edit.NewSpec, edit.NewZone = query.Get("spec"), query.Get("time_zone")
		if seen := query.Get("seen"); seen != "" { // the preview is no new look at what stands there
			edit.Seen = seen
		}
	}
	edit.Changed = edit.NewSpec != stored.Spec || edit.NewZone != stored.TimeZone
	ticks, err := schedule.Preview(edit.NewSpec, edit.NewZone, now, ticksPreviewed)
	var refused *schedule.ConfigError
	switch {
	case errors.As(err, &refused):
		edit.Field, edit.Wrong = refused.Field, refused.Message
	case err != nil:
		return err
	}
	for _, at := range ticks {
		edit.Ticks = append(edit.Ticks, newTickView(at, edit.NewZone))
	}
	return r.page(http.StatusOK, "schedules_edit", "schedules", "When schedule "+stored.Name+" runs", edit)
}

func setScheduleSpec(r *request) error {
	spec, zone := r.PostFormValue("spec"), r.PostFormValue("time_zone")
	err := r.changeSchedule(pgqueue.ActionSchedulePut, "spec "+spec+", time zone "+zone, func(ctx context.Context, tx pgx.Tx, name string) error {
		return r.console.editor.SetSpec(ctx, tx, name, spec, zone)
	})
	if err != nil {
		return err
	}
	return r.backToSchedule(url.Values{"done": {"spec"}})
}
