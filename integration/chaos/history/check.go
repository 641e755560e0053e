package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Rule is a promise that a run may break.
type Rule string

// The promises that [Check] looks at.
const (
	// Lost: what a committed transaction enqueued has ended, in its last input.
	Lost Rule = "lost"
	// Ghost: what a rolled-back transaction enqueued has never run.
	Ghost Rule = "ghost"
	// Effect: a transactional handler's effect is there exactly once for each job that succeeded, and not at all for the others.
	Effect Rule = "effect"
	// Doubled: of one input of a job at most one success was accepted.
	Doubled Rule = "doubled"
	// Unexplained: a job ran again although nothing says that the run before it failed, was given back, or lost its lease.
	Unexplained Rule = "unexplained"
	// Attempts: the number of each run of a job is higher than that of the run before.
	Attempts Rule = "attempts"
	// Order: within a queue and a priority no job started before one that had been due for longer than the limit before it.
	Order Rule = "order"
	// Stale: the last success of a key was that of its last input.
	Stale Rule = "stale"
)

// Violation is one broken promise.
type Violation struct {
	Rule Rule
	Job  int64
	Text string
}

// String names the violation.
func (v Violation) String() string { return fmt.Sprintf("%s: job %d: %s", v.Rule, v.Job, v.Text) }

// Limits say how far a promise goes.
type Limits struct {
	// Overtaking is by how much a job that is due earlier may start later, of one queue and priority: a poll, a margin for what
	// commits late, and the time of a claim under faults. 0: order is not looked at, as where jobs were retried or moved by hand.
	Overtaking time.Duration
}

// Check compares what was recorded with how the database stands. No violation means that every promise was kept.
func Check(events []Event, final Final, limits Limits) []Violation {
	c := &checker{final: final, jobs: map[int64]*job{}, requests: map[string]*request{}}
	for i := range events {
		c.add(&events[i])
	}
	for _, request := range slices.SortedFunc(maps.Values(c.requests), func(a, b *request) int { return cmp.Compare(a.intended.At, b.intended.At) }) {
		c.checkRequest(request)
	}
	for _, id := range slices.Sorted(maps.Keys(c.jobs)) {
		job := c.jobs[id]
		c.checkRuns(id, job)
		c.checkSuccesses(id, job)
	}
	c.checkEffects()
	if limits.Overtaking > 0 {
		c.checkOrder(limits.Overtaking)
	}
	return c.found
}

// request is one enqueue.
type request struct {
	intended *Event
	answer   *Event // nil: none came
	end      Type   // "" while nothing is known
}

// job is what was recorded of one job.
type job struct {
	starts   []*Event
	settled  []*Event
	requests []*request // that gave it an input, committed or in doubt
}

// inputs are those that the job may have ended with: the last one that was committed, or one in doubt behind it. They follow each
// other as their answers do: an enqueue of a key waits for the transaction before it.
func (j *job) inputs() (inputs []string) {
	slices.SortFunc(j.requests, func(a, b *request) int { return cmp.Compare(a.answer.At, b.answer.At) })
	for _, r := range slices.Backward(j.requests) {
		inputs = append(inputs, r.intended.Input)
		if r.end == Committed {
			break
		}
	}
	return inputs
}

type checker struct {
	final    Final
	jobs     map[int64]*job
	requests map[string]*request
	found    []Violation
}

func (c *checker) fail(rule Rule, job int64, format string, args ...any) {
	c.found = append(c.found, Violation{rule, job, fmt.Sprintf(format, args...)})
}

func (c *checker) job(id int64) *job {
	if c.jobs[id] == nil {
		c.jobs[id] = &job{}
	}
	return c.jobs[id]
}

func (c *checker) add(e *Event) {
	switch e.Type {
	case Intended:
		c.requests[e.Request] = &request{intended: e}
	case Enqueued:
		if r := c.requests[e.Request]; r != nil {
			r.answer = e
		}
	case Committed, RolledBack, InDoubt:
		if r := c.requests[e.Request]; r != nil {
			r.end = e.Type
			if r.end != RolledBack && r.answer != nil && r.answer.Outcome != Same {
				c.job(r.answer.Job).requests = append(c.job(r.answer.Job).requests, r)
			}
		}
	case Started:
		c.job(e.Job).starts = append(c.job(e.Job).starts, e)
	case Settled:
		c.job(e.Job).settled = append(c.job(e.Job).settled, e)
	case Finished: // for people who read the log: what counts is what was settled
	}
}

// checkRequest looks at what became of one enqueue.
func (c *checker) checkRequest(r *request) {
	if r.answer == nil {
		return // it was never told of a job
	}
	id := r.answer.Job
	switch r.end {
	case Committed:
		if _, ended := c.final.Jobs[id]; !ended {
			c.fail(Lost, id, "request %s was committed, and the job has not ended", r.intended.Request)
		}
	case RolledBack:
		if i := slices.IndexFunc(c.job(id).starts, func(e *Event) bool { return e.Input == r.intended.Input }); i >= 0 {
			c.fail(Ghost, id, "request %s was rolled back, and its input ran in attempt %d", r.intended.Request, c.jobs[id].starts[i].Attempt)
		}
	}
}

// checkRuns looks at the attempts of one job.
func (c *checker) checkRuns(id int64, j *job) {
	end := c.final.Jobs[id]
	for i, start := range j.starts {
		if i > 0 && start.Attempt <= j.starts[i-1].Attempt {
			c.fail(Attempts, id, "attempt %d started after attempt %d", start.Attempt, j.starts[i-1].Attempt)
		}
		// What was claimed and never started is explained in the same way, so it is asked of each attempt before this one.
		for before := start.Attempt - 1; before >= 1; before-- {
			if i > 0 && before < j.starts[i-1].Attempt {
				break
			}
			if !c.explained(j, &end, before) {
				c.fail(Unexplained, id, "attempt %d ran although attempt %d had neither failed, nor been given back, nor lost its lease", start.Attempt, before)
			}
		}
	}
	if len(j.starts) > 0 && end.Attempt > 0 && j.starts[len(j.starts)-1].Attempt > end.Attempt {
		c.fail(Attempts, id, "attempt %d started, the job ended at attempt %d", j.starts[len(j.starts)-1].Attempt, end.Attempt)
	}
}

// explained tells whether there may be an attempt after this one.
func (c *checker) explained(j *job, end *End, attempt int) bool {
	if end.Released || slices.Contains(end.Lapsed, attempt) || end.Errors > storedErrors {
		return true
	}
	return slices.ContainsFunc(j.settled, func(e *Event) bool {
		return e.Attempt == attempt && slices.Contains([]string{Retrying, Snoozed, Released, Superseded}, e.Outcome)
	})
}

// storedErrors is how many errors a job keeps: of a job with more, it is not known of each attempt how it ended.
const storedErrors = 10

// checkSuccesses looks at what was accepted of one job.
func (c *checker) checkSuccesses(id int64, j *job) {
	inputs := map[int]string{}
	for _, start := range j.starts {
		inputs[start.Attempt] = start.Input
	}
	succeeded := map[string]int{} // input: attempt
	for _, e := range j.settled {
		if e.Outcome != Succeeded {
			continue
		}
		if before, ok := succeeded[inputs[e.Attempt]]; ok {
			c.fail(Doubled, id, "attempts %d and %d of input %q both succeeded", before, e.Attempt, inputs[e.Attempt])
		}
		succeeded[inputs[e.Attempt]] = e.Attempt
	}
	end, ended := c.final.Jobs[id]
	if ended && len(succeeded) > 0 && end.State != Succeeded {
		c.fail(Doubled, id, "a success was accepted, and the job ended as %s", end.State)
	}
	if allowed := j.inputs(); ended && len(allowed) > 0 && !slices.Contains(allowed, end.Input) {
		c.fail(Stale, id, "it ended with input %q, the last that was committed is %q", end.Input, allowed[len(allowed)-1])
	}
}

// checkEffects counts what transactional handlers left behind.
func (c *checker) checkEffects() {
	for _, id := range slices.Sorted(maps.Keys(c.final.Jobs)) {
		end, want := c.final.Jobs[id], 0
		if !end.Effect {
			continue
		}
		if end.State == Succeeded {
			want = 1
		}
		if got := c.final.Effects[id]; got != want {
			c.fail(Effect, id, "it ended as %s with %d effects, want %d", end.State, got, want)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.final.Effects)) {
		if _, ended := c.final.Jobs[id]; !ended {
			c.fail(Effect, id, "there is an effect of a job that has not ended")
		}
	}
}

// checkOrder looks at first attempts: what was retried comes when it comes.
func (c *checker) checkOrder(limit time.Duration) {
	type line struct {
		queue    string
		priority int
	}
	lines := map[line][]*Event{}
	for _, j := range c.jobs {
		if len(j.starts) > 0 && j.starts[0].Attempt == 1 && j.starts[0].Due > 0 {
			at := line{j.starts[0].Queue, j.starts[0].Priority}
			lines[at] = append(lines[at], j.starts[0])
		}
	}
	for _, starts := range lines {
		slices.SortFunc(starts, func(a, b *Event) int { return cmp.Compare(a.At, b.At) })
		// The latest due time that has started so far: whoever starts afterwards and was due long before that was overtaken.
		latest := starts[0]
		for _, start := range starts[1:] {
			if start.Due > latest.Due {
				latest = start
				continue
			}
			waited := min(start.At-latest.At, time.Duration(latest.Due-start.Due)*time.Microsecond)
			if waited > limit {
				c.fail(Order, start.Job, "it was due %s before job %d and started %s after it", time.Duration(latest.Due-start.Due)*time.Microsecond,
					latest.Job, start.At-latest.At)
			}
		}
	}
}
