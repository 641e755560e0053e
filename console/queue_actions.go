package console

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgqueue/pgqueue/pgqueue"
)

// controlConfirm is the page that asks before an action on a queue, a kind or a schedule; see queues_confirm.html.
type controlConfirm struct {
	Title   string
	Effect  []string // what it does, in sentences
	Warning string
	Facts   []controlFact
	Post    string // where the form goes, below the prefix
	Back    string // below the prefix
	Hidden  []controlFact
	Button  string
	Danger  bool

	Pause   bool         // the form asks for an end and a reason
	History []historyFor // the form asks what is kept
	Kind    string       // with AskKind
	Queue   string
	AskKind bool // the form asks for a kind and a queue, and comes back with them

	Problem string     // why what was Typed was refused
	Typed   url.Values // the fields of the form that was sent
}

// ask shows the page; with a refusal, and where the form has fields to be filled in, the same form with what was typed and the reason. After a
// conflict the form is about what the page shows now; otherwise it still is about what was seen when it was made.
func (c *controlConfirm) ask(r *request, section string, refused error) error {
	if refused == nil {
		return r.page(http.StatusOK, "queues_confirm", section, c.Title, c)
	}
	known := explain(refused)
	if !c.Pause && c.History == nil || known.status != http.StatusBadRequest && known.status != http.StatusConflict {
		return refused
	}
	c.Problem, c.Typed = known.text, r.PostForm
	for n, field := range c.Hidden {
		if field.Name == "seen" && known.status == http.StatusBadRequest {
			c.Hidden[n].Value = r.PostForm.Get("seen")
		}
	}
	for n := range c.History {
		if given := r.PostForm.Get("history"); given != "" {
			c.History[n].Current = string(c.History[n].Value) == given
		}
	}
	return r.page(known.status, "queues_confirm", section, c.Title, c)
}

// pauseLength is one of the lengths of a pause that a form offers.
type pauseLength struct {
	Value, Words string
	Chosen       bool
}

// Lengths are the lengths of a pause, and which was chosen.
func (c *controlConfirm) Lengths() []pauseLength {
	lengths := []pauseLength{
		{"", "until somebody resumes it", false}, {"15m", "15 minutes", false}, {"1h", "an hour", false}, {"4h", "4 hours", false}, {"24h", "a day", false},
	}
	for n := range lengths {
		lengths[n].Chosen = c.Typed != nil && lengths[n].Value == c.Typed.Get("for")
	}
	return lengths
}

// controlFact is a name with a value.
type controlFact struct{ Name, Value string }

// historyFor is a choice of what a queue keeps.
type historyFor struct {
	Value   pgqueue.History
	Means   string
	Current bool
}

// confirmQueueAction asks before an action on a queue.
func confirmQueueAction(r *request) error { return askForQueueAction(r, r.PathValue("action"), nil) }

// askForQueueAction shows the page that asks, again where what was sent was refused; see controlConfirm.ask.
func askForQueueAction(r *request, action string, refused error) error {
	queue := r.PathValue("queue")
	stats, err := queueStats(r.Context(), r.inspector(), queue)
	if err != nil {
		return errors.Join(refused, err)
	}
	path := "/queues/" + segment(queue)
	confirm := &controlConfirm{Back: path, Post: path + "/" + action, Hidden: []controlFact{{"seen", seenPause(stats)}}}
	switch action {
	case "pause":
		confirm.Title, confirm.Button, confirm.Pause = "Pause queue "+queue, "Pause", true
		confirm.Effect = []string{
			"No worker claims anything more from it. What has been claimed and not started is given back at no cost.",
			"What is running goes on, and so does enqueueing.",
		}
		confirm.Warning = pausedSentence(stats)
	case "resume":
		confirm.Title, confirm.Button = "Resume queue "+queue, "Resume"
		confirm.Effect = []string{"Workers begin to claim from it at once.", fmt.Sprintf("Due now: %s jobs.", newCountedQueue(stats, nil, nil).ReadyAll())}
		confirm.Warning = pausedSentence(stats)
		if confirm.Warning == "" {
			confirm.Warning = "It is not paused."
		}
	case "history":
		confirm.Title, confirm.Button = "History of queue "+queue, "Change"
		confirm.Hidden = []controlFact{{"seen", string(stats.History)}}
		confirm.Effect = []string{"What is kept of jobs that succeeded, from the next claim on. What failed is always kept in full."}
		for _, choice := range historyChoices() {
			choice.Current = choice.Value == stats.History
			confirm.History = append(confirm.History, choice)
		}
	default:
		return notFound("There is no such action on a queue.")
	}
	return confirm.ask(r, "queues", refused)
}

// historyChoices are the settings, each with what it means.
func historyChoices() []historyFor {
	return []historyFor{
		{Value: pgqueue.HistoryFull, Means: "the whole job, its payload too"},
		{Value: pgqueue.HistorySlim, Means: "everything but the payload, which large payloads would pay for twice"},
		{Value: pgqueue.HistoryOff, Means: "nothing: completion is a DELETE, and results are refused"},
	}
}

// pausedSentence says that a queue is paused; empty: it is not.
func pausedSentence(stats pgqueue.QueueStats) string {
	if stats.PausedAt.IsZero() {
		return ""
	}
	return "It is paused since " + utcText(stats.PausedAt) + ", " + untilText(stats.PausedUntil) + reasonText(stats.PausedReason) + "."
}

func utcText(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func untilText(until time.Time) string {
	if until.IsZero() {
		return "until somebody resumes it"
	}
	return "until " + utcText(until)
}

func reasonText(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// seenPause names the pause that somebody looked at, so that what was decided about one is not done to another.
func seenPause(stats pgqueue.QueueStats) string {
	return seenTimes(stats.PausedAt, stats.PausedUntil, stats.PausedReason)
}

func seenTimes(since, until time.Time, reason string) string {
	if since.IsZero() {
		return "none"
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(reason)) // a hash does not fail
	return fmt.Sprintf("%d.%d.%x", since.UnixMicro(), until.UnixMicro(), hash.Sum64())
}

// takeTurns runs act in a transaction in which no other console acts on the same thing, and gives it the database's time.
func (r *request) takeTurns(thing string, act func(tx pgx.Tx, now time.Time) error) error {
	ctx := r.Context()
	return pgx.BeginTxFunc(ctx, r.console.config.Pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		var now time.Time
		if err := tx.QueryRow(ctx, statementsOf(r.console.config.Schema)["take_turns"], r.console.config.Schema+" "+thing).Scan(&now); err != nil {
			return fmt.Errorf("take turns: %w", err)
		}
		return act(tx, now)
	})
}

// changeQueue acts on a queue whose pause is the one that was seen.
func (r *request) changeQueue(done string, act func(ctx context.Context, inspector *pgqueue.Inspector, before pgqueue.QueueStats, now time.Time) error) error {
	queue, ctx := r.PathValue("queue"), r.Context()
	err := r.takeTurns("queue "+queue, func(tx pgx.Tx, now time.Time) error {
		inspector := r.inspector().On(tx)
		before, err := queueStats(ctx, inspector, queue)
		if err != nil {
			return err
		}
		return act(ctx, inspector, before, now)
	})
	if err != nil {
		return askForQueueAction(r, done, err)
	}
	r.console.counts.forget()
	return r.redirect("/queues/"+segment(queue), url.Values{"done": {done}})
}

// unseen is the conflict with what somebody else did after the form was shown.
func (r *request) unseen(have, now string) error {
	if r.PostFormValue("seen") == have {
		return nil
	}
	if now == "" {
		now = "It is not paused now."
	}
	return conflict("Somebody else was faster, and nothing was changed. " + now + " Look again, and decide anew.")
}

func pauseQueue(r *request) error {
	return r.changeQueue("pause", func(ctx context.Context, inspector *pgqueue.Inspector, before pgqueue.QueueStats, now time.Time) error {
		until, err := pauseEnd(r.PostForm, now)
		if err != nil {
			return err
		}
		if err := r.unseen(seenPause(before), pausedSentence(before)); err != nil {
			return err
		}
		if until.IsZero() {
			return inspector.PauseQueue(ctx, before.Queue, r.PostFormValue("reason"))
		}
		if longer := !before.PausedAt.IsZero() && (before.PausedUntil.IsZero() || before.PausedUntil.After(until)); longer {
			return conflict("No pause shortens another, and nothing was changed. " + pausedSentence(before) + " To end it earlier, resume the queue, and pause it anew.")
		}
		return inspector.PauseQueueUntil(ctx, before.Queue, until, r.PostFormValue("reason"))
	})
}

func resumeQueue(r *request) error {
	return r.changeQueue("resume", func(ctx context.Context, inspector *pgqueue.Inspector, before pgqueue.QueueStats, _ time.Time) error {
		if err := r.unseen(seenPause(before), pausedSentence(before)); err != nil {
			return err
		}
		if before.PausedAt.IsZero() {
			return conflict("It is not paused; nothing was changed.")
		}
		return inspector.ResumeQueue(ctx, before.Queue)
	})
}

func setQueueHistory(r *request) error {
	return r.changeQueue("history", func(ctx context.Context, inspector *pgqueue.Inspector, before pgqueue.QueueStats, _ time.Time) error {
		if err := r.unseen(string(before.History), fmt.Sprintf("The setting is %q now.", before.History)); err != nil {
			return err
		}
		return inspector.SetHistory(ctx, before.Queue, pgqueue.History(r.PostFormValue("history")))
	})
}

// pauseEnd is when a pause of a form ends: at "until", which is a time in UTC as browsers send it or RFC 3339; otherwise after "for", a
// duration from the database's now on; zero: when somebody ends it.
func pauseEnd(form url.Values, now time.Time) (time.Time, error) {
	if text := form.Get("until"); text != "" {
		for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02T15:04:05"} {
			if until, err := time.Parse(layout, text); err == nil {
				if !until.After(now) {
					return time.Time{}, badRequest("The end of the pause, " + utcText(until) + ", has passed: the database's clock says " + utcText(now) + ".")
				}
				return until, nil
			}
		}
		return time.Time{}, badRequest("The end of the pause is no time such as 2027-01-31T09:00, in UTC.")
	}
	text := form.Get("for")
	if text == "" {
		return time.Time{}, nil
	}
	length, err := time.ParseDuration(text)
	if err != nil || length <= 0 || length > 366*24*time.Hour {
		return time.Time{}, badRequest("The length of the pause is no duration such as 15m or 4h, of a year at most.")
	}
	return now.Add(length), nil
}
