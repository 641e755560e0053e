package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/pgqueue/pgqueue/reaper"
	"github.com/pgqueue/pgqueue/runner"
)

// DrainResult says what one drain did.
type DrainResult struct {
	Recovered reaper.Recovered // stale claims that were taken back first
	Claimed   int
	Outcomes  runner.Outcomes
	// More says that rows which were due when the drain began are still waiting: a handler has returned [runner.Pause], somebody
	// has them locked, or the drain ended early.
	More bool
}

// Drain takes back stale claims and then works off what is due when it begins, until a claim comes back empty or ctx ends: for
// cron and serverless. Rows that become due, or are made, while it works are left to the next one, so it ends even if its own
// work makes rows. It needs no session state and works through a transaction pooler.
//
// A second Drain of the same worker, or one beside its Run, returns [ErrBusy] at once and changes nothing. Drains of other
// processes share the work. When ctx ends it stops like [Worker.Run] and returns ctx's error. Where taking back stale claims
// fails, what is due is worked off all the same, and the error comes at the end. The result is valid in every case.
func (w *Worker[P, R]) Drain(ctx context.Context) (result DrainResult, err error) {
	if err := w.begin(draining); err != nil {
		return result, err
	}
	defer func() {
		w.mu.Lock()
		w.busy, w.last, w.drained = idle, result, time.Now()
		w.count++
		w.mu.Unlock()
	}()
	if err := w.checkOnce(ctx); err != nil {
		return result, orEnded(ctx, err)
	}
	recovered, reapErr := w.reaps.Once(ctx)
	result.Recovered = recovered
	until, err := w.queue.now(ctx)
	if err != nil {
		return result, orEnded(ctx, errors.Join(err, reapErr))
	}
	w.until.Store(&until)
	drained, err := w.drains.Drain(ctx)
	result.Claimed, result.Outcomes = drained.Claimed, drained.Outcomes
	if ctx.Err() != nil {
		return result, errors.Join(err, reapErr)
	}
	left, lookErr := w.queue.peek(ctx, "peek", w.queue.claimArgs(runner.ClaimRequest{}, until), 1)
	result.More = len(left) > 0
	return result, errors.Join(err, reapErr, w.queue.wrap("look for what is left", lookErr))
}

// orEnded is ctx's error if it has ended, and err otherwise: what failed because nobody waits any more is no fault of the
// database.
func orEnded(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	return err
}

// drainAnswer is what [Worker.DrainHandler] answers with.
type drainAnswer struct {
	Recovered int    `json:"recovered"`
	Claimed   int    `json:"claimed"`
	Succeeded uint64 `json:"succeeded"`
	Retrying  uint64 `json:"retrying"`
	Failed    uint64 `json:"failed"`
	Dead      uint64 `json:"dead"`
	Cancelled uint64 `json:"cancelled"`
	Snoozed   uint64 `json:"snoozed"`
	Released  uint64 `json:"released"`
	Lost      uint64 `json:"lost"`
	More      bool   `json:"more"`
	TookMS    int64  `json:"took_ms"`
	Error     string `json:"error,omitempty"`
}

// DrainHandler lets a cron service drain over HTTP. A POST drains and is answered with 200 and the counts as JSON when nothing
// is due any more, or, then with "more": true, what is left has to wait; see [DrainResult]. 409 means that a drain is under way, whose answer goes to who asked first; 500 that it ended early, with the counts
// so far and the reason in the log. Other methods get 405. If the client goes away, the drain stops as if its context had
// ended.
//
// It lets anybody in who reaches it: put it behind the application's authentication. The server's write timeout must allow
// for a whole drain.
func (w *Worker[P, R]) DrainHandler() http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, request *http.Request) {
		out.Header().Set("Cache-Control", "no-store")
		if request.Method != http.MethodPost {
			out.Header().Set("Allow", http.MethodPost)
			w.answer(out, http.StatusMethodNotAllowed, drainAnswer{Error: "only POST"})
			return
		}
		began := time.Now()
		result, err := w.Drain(request.Context())
		answer := drainAnswer{
			Recovered: result.Recovered.Total(), Claimed: result.Claimed, Succeeded: result.Outcomes.Succeeded,
			Retrying: result.Outcomes.Retrying, Failed: result.Outcomes.Failed, Dead: result.Outcomes.Dead,
			Cancelled: result.Outcomes.Cancelled, Snoozed: result.Outcomes.Snoozed, Released: result.Outcomes.Released,
			Lost: result.Outcomes.Lost, More: result.More, TookMS: time.Since(began).Milliseconds(),
		}
		switch {
		case errors.Is(err, ErrBusy):
			answer.Error = "a drain is under way"
			w.answer(out, http.StatusConflict, answer)
		case err != nil:
			w.queue.log.ErrorContext(request.Context(), "outbox: a drain ended early", brief(err))
			answer.Error = "the drain ended early"
			w.answer(out, http.StatusInternalServerError, answer)
		default:
			w.answer(out, http.StatusOK, answer)
		}
	})
}

func (w *Worker[P, R]) answer(out http.ResponseWriter, status int, answer drainAnswer) {
	out.Header().Set("Content-Type", "application/json")
	out.WriteHeader(status)
	if err := json.NewEncoder(out).Encode(answer); err != nil {
		w.queue.log.Debug("outbox: the answer of a drain was not read", "error", err)
	}
}
