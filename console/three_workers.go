package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/pgqueue/pgqueue/pgqueue"
)

func threeWorkersRoutes() []route {
	return []route{{http.MethodGet, "/workers/explained", Viewer, explainWorkers}}
}

// How much the page about the three things called worker looks at.
const (
	claimsLookedAt = 500
	claimantsShown = 12
)

// threeWorkersPage is the data of templates/workers_explained.html.
type threeWorkersPage struct {
	Alive, Stopping, Gone   int // processes
	Slots, Running, Waiting int // of those that are alive: how many jobs at once, how many now, claimed and not started
	Every                   time.Duration
	Oldest                  time.Time // the last heartbeat of the one that has been silent longest
	Cadence                 cadence
	Source                  string // of the samples that the two sides compute on
}

// explainWorkers tells the three things called worker apart, on what this installation does at this moment.
func explainWorkers(r *request) error {
	r.live()
	reports, err := r.inspector().Workers(r.Context())
	if err != nil {
		return err
	}
	claimants, err := r.latestClaimants(r.Context())
	if err != nil {
		return err
	}
	query := sampleQuery{Limit: pgqueue.MaxSampleLimit}
	page := threeWorkersPage{Source: r.url("/api/samples", query.values()), Cadence: cadenceOf(reports, claimants)}
	for _, report := range reports {
		worker := newWorkerView(report)
		switch worker.State() {
		case "gone":
			page.Gone++
			continue
		case "stopping":
			page.Stopping++
		default:
			page.Alive++
		}
		all := worker.All()
		page.Slots, page.Running, page.Waiting = page.Slots+all.Workers, page.Running+all.InFlight, page.Waiting+all.Buffered
		page.Every = max(page.Every, report.Every)
		if page.Oldest.IsZero() || report.SeenAt.Before(page.Oldest) {
			page.Oldest = report.SeenAt
		}
	}
	return r.page(http.StatusOK, "workers_explained", "workers", "Three things called worker", page)
}

// claimant is a process that has claimed jobs lately.
type claimant struct {
	ID          string
	Jobs        int
	First, Last time.Time // of its claims, among those looked at
	Resident    bool      // it reports itself, or did during the last hour
}

// latestClaimants groups the latest finished jobs by who claimed them, the latest claim first.
func (r *request) latestClaimants(ctx context.Context) ([]claimant, error) {
	page, err := r.inspector().List(ctx, pgqueue.Filter{
		States: []pgqueue.JobState{pgqueue.JobSucceeded, pgqueue.JobFailed, pgqueue.JobDead},
	}, pgqueue.ListOptions{Limit: claimsLookedAt, Preview: -1})
	if err != nil {
		return nil, err
	}
	byID := map[string]*claimant{}
	for n := range page.Jobs {
		job := &page.Jobs[n]
		if job.ClaimedBy == "" || job.ClaimedAt.IsZero() {
			continue
		}
		one, ok := byID[job.ClaimedBy]
		if !ok {
			one = &claimant{ID: job.ClaimedBy, First: job.ClaimedAt, Last: job.ClaimedAt}
			byID[job.ClaimedBy] = one
		}
		one.Jobs++
		if job.ClaimedAt.Before(one.First) {
			one.First = job.ClaimedAt
		}
		if job.ClaimedAt.After(one.Last) {
			one.Last = job.ClaimedAt
		}
	}
	claimants := make([]claimant, 0, len(byID))
	for _, one := range byID {
		claimants = append(claimants, *one)
	}
	slices.SortFunc(claimants, func(a, b claimant) int { return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.ID, b.ID)) })
	return claimants, nil
}

// cadence is how the queues of an installation are drained.
type cadence struct {
	// Kind is "resident" (processes that stay), "one-shot" (processes that come, drain and leave), "both", or "none" where
	// nothing is known.
	Kind      string
	Resident  int           // processes that report themselves
	OneShot   int           // processes that claimed and never reported themselves, or are no longer there
	Between   time.Duration // the median time between the starts of the one-shot ones; 0: fewer than two
	Claimants []claimant
	More      int // claimants that are not shown
}

// cadenceOf tells residents from one-shot drains: a resident worker sends heartbeats, and a drain that is over within one
// interval of them sends none. A resident that died more than an hour ago has left the list, and cannot be told from a drain.
func cadenceOf(reports []pgqueue.WorkerReport, claimants []claimant) cadence {
	known, alive := map[string]bool{}, 0
	for _, report := range reports {
		known[report.ID] = true
		if report.Alive {
			alive++
		}
	}
	c := cadence{Kind: "none", Resident: alive}
	var starts []time.Time
	for n := range claimants {
		claimants[n].Resident = known[claimants[n].ID]
		if !claimants[n].Resident {
			c.OneShot++
			starts = append(starts, claimants[n].First)
		}
	}
	slices.SortFunc(starts, time.Time.Compare)
	var gaps []time.Duration
	for n := 1; n < len(starts); n++ {
		gaps = append(gaps, starts[n].Sub(starts[n-1]))
	}
	if slices.Sort(gaps); len(gaps) > 0 {
		c.Between = gaps[len(gaps)/2]
	}
	switch {
	case c.Resident > 0 && c.OneShot > 0:
		c.Kind = "both"
	case c.Resident > 0:
		c.Kind = "resident"
	case c.OneShot > 0:
		c.Kind = "one-shot"
	}
	shown := min(len(claimants), claimantsShown)
	c.Claimants, c.More = claimants[:shown], len(claimants)-shown
	return c
}
