package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// kindsPerPage is how many paused kinds are listed.
const kindsPerPage = 500

// kindsPage is what queues_kinds.html shows.
type kindsPage struct {
	Kinds []pausedKind
	Found int
}

// pausedKind is a pause of a kind, with where to end it.
type pausedKind struct {
	pgqueue.KindPause
	Resume string // below the prefix
	Jobs   string
}

func listPausedKinds(r *request) error {
	pauses, err := r.inspector().PausedKinds(r.Context())
	if err != nil {
		return err
	}
	slices.SortFunc(pauses, byKind)
	page := &kindsPage{Found: len(pauses)}
	for _, pause := range pauses[:min(len(pauses), kindsPerPage)] {
		jobs := url.Values{"kind": {pause.Kind}}
		if pause.Queue != "" {
			jobs.Set("queue", pause.Queue)
		}
		page.Kinds = append(page.Kinds, pausedKind{pause, confirmKind("resume", pause.Kind, pause.Queue), r.url("/jobs", jobs)})
	}
	r.live()
	return r.page(http.StatusOK, "queues_kinds", "queues", "Paused kinds", page)
}

// confirmKind is the address of the page that asks before an action on a kind.
func confirmKind(action, kind, queue string) string {
	return "/kinds/confirm/" + action + "?" + url.Values{"kind": {kind}, "queue": {queue}}.Encode()
}

// findPause is the pause of a kind, in one queue or in all.
func findPause(ctx context.Context, inspector *pgqueue.Inspector, kind, queue string) (pgqueue.KindPause, error) {
	pauses, err := inspector.PausedKinds(ctx)
	if err != nil {
		return pgqueue.KindPause{}, err
	}
	at := slices.IndexFunc(pauses, func(p pgqueue.KindPause) bool { return p.Kind == kind && p.Queue == queue })
	if at < 0 {
		return pgqueue.KindPause{Kind: kind, Queue: queue}, nil
	}
	return pauses[at], nil
}

func seenKindPause(pause pgqueue.KindPause) string {
	return seenTimes(pause.Since, pause.Until, pause.Reason)
}

// kindSentence says that a kind is paused; empty: it is not.
func kindSentence(pause pgqueue.KindPause) string {
	if pause.Since.IsZero() {
		return ""
	}
	return "It is paused since " + utcText(pause.Since) + ", " + untilText(pause.Until) + reasonText(pause.Reason) + "."
}

// kindPlace says where a kind is meant.
func kindPlace(queue string) string {
	if queue == "" {
		return "in all queues"
	}
	return "in queue " + queue
}

// confirmKindAction asks before an action on a kind; for a pause without a kind, it asks for that first.
func confirmKindAction(r *request) error {
	return askForKindAction(r, r.URL.Query(), r.PathValue("action"), nil)
}

// askForKindAction shows the page that asks, again where what was sent was refused; see controlConfirm.ask.
func askForKindAction(r *request, values url.Values, action string, refused error) error {
	kind, queue := values.Get("kind"), values.Get("queue")
	confirm := &controlConfirm{
		Back: "/kinds", Post: "/kinds/" + action, Kind: kind, Queue: queue,
		Facts: []controlFact{{"Kind", kind}, {"Where", kindPlace(queue)}},
	}
	if action != "pause" && action != "resume" {
		return notFound("There is no such action on a kind.")
	}
	if kind == "" {
		if refused != nil {
			return refused
		}
		if action != "pause" {
			return badRequest("Which kind is to go on?")
		}
		confirm.Title, confirm.AskKind, confirm.Facts, confirm.Button = "Pause a kind", true, nil, "Go on"
		return r.page(http.StatusOK, "queues_confirm", "queues", confirm.Title, confirm)
	}
	pause, err := findPause(r.Context(), r.inspector(), kind, queue)
	if err != nil {
		return errors.Join(refused, err)
	}
	confirm.Hidden = []controlFact{{"kind", kind}, {"queue", queue}, {"seen", seenKindPause(pause)}}
	confirm.Warning = kindSentence(pause)
	switch action {
	case "pause":
		confirm.Title, confirm.Button, confirm.Pause = "Pause kind "+kind+" "+kindPlace(queue), "Pause", true
		confirm.Effect = []string{"No worker claims a job of this kind " + kindPlace(queue) + ". Other kinds go on, and so does what is running."}
	case "resume":
		confirm.Title, confirm.Button = "Resume kind "+kind+" "+kindPlace(queue), "Resume"
		confirm.Effect = []string{"Workers claim jobs of this kind again, at once. A pause of its queue, or of the kind in another place, stays."}
		if confirm.Warning == "" {
			confirm.Warning = "It is not paused " + kindPlace(queue) + "."
		}
	}
	return confirm.ask(r, "queues", refused)
}

// changeKind acts on a kind whose pause is the one that was seen.
func (r *request) changeKind(done string, act func(ctx context.Context, inspector *pgqueue.Inspector, before pgqueue.KindPause, now time.Time) error) error {
	kind, queue, ctx := r.PostFormValue("kind"), r.PostFormValue("queue"), r.Context()
	err := r.takeTurns("kind "+kind+" "+queue, func(tx pgx.Tx, now time.Time) error {
		inspector := r.inspector().On(tx)
		before, err := findPause(ctx, inspector, kind, queue)
		if err != nil {
			return err
		}
		if err := r.unseen(seenKindPause(before), kindSentence(before)); err != nil {
			return err
		}
		return act(ctx, inspector, before, now)
	})
	if err != nil {
		return askForKindAction(r, r.PostForm, done, err)
	}
	return r.redirect("/kinds", url.Values{"done": {done}})
}

func pauseKind(r *request) error {
	return r.changeKind("pause", func(ctx context.Context, inspector *pgqueue.Inspector, before pgqueue.KindPause, now time.Time) error {
		until, err := pauseEnd(r.PostForm, now)
		if err != nil {
			return err
		}
		longer := !before.Since.IsZero() && !until.IsZero() && (before.Until.IsZero() || before.Until.After(until))
		if longer {
			return conflict("No pause shortens another, and nothing was changed. " + kindSentence(before) + " To end it earlier, resume the kind, and pause it anew.")
		}
		return inspector.PauseKind(ctx, pgqueue.KindPause{Kind: before.Kind, Queue: before.Queue, Until: until, Reason: r.PostFormValue("reason")})
	})
}

func resumeKind(r *request) error {
	return r.changeKind("resume", func(ctx context.Context, inspector *pgqueue.Inspector, before pgqueue.KindPause, _ time.Time) error {
		if before.Since.IsZero() {
			return conflict("It is not paused " + kindPlace(before.Queue) + "; nothing was changed.")
		}
		return inspector.ResumeKind(ctx, before.Kind, before.Queue)
	})
}
