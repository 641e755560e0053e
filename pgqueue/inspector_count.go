package pgqueue

import (
	"context"
	"fmt"
	"time"
)

// MaxAttentionGroups is how many groups [Inspector.Attention] returns at most.
const MaxAttentionGroups = 1_000

// JobCounts says how many jobs match a filter.
type JobCounts struct {
	// Total is the sum of ByState, which has an entry for each state that was asked for. Each is a [Count]: with More set
	// it is what was found until the counting stopped.
	Total   Count
	ByState map[JobState]Count
}

// Counts counts the jobs that match, by state, and looks at no more than [MaxStatsCount] rows of each index: those of what is
// pending, what runs, what failed or died (by queue, if the filter names one; these latest first), and what succeeded or
// was cancelled (latest numbers first). Where there are more rows, the count is a lower bound and says so. A dry run of a
// bulk action counts all, and takes its time.
func (i *Inspector) Counts(ctx context.Context, filter Filter) (*JobCounts, error) {
	if err := runsOn(i.q); err != nil {
		return nil, fmt.Errorf("count jobs: %w", err)
	}
	stored, err := filter.check()
	if err != nil {
		return nil, fmt.Errorf("count jobs: %w", err)
	}
	rows, err := i.store.Count(ctx, i.q, stored, MaxStatsCount)
	if err != nil {
		return nil, explained(err)
	}
	scanned, cut := map[int]int{}, map[int]bool{} // by source
	for _, row := range rows {
		scanned[row.Source] += row.Scanned
		cut[row.Source] = cut[row.Source] || row.Cut
	}
	counts := &JobCounts{ByState: map[JobState]Count{}}
	wanted := filter.States
	if len(wanted) == 0 {
		wanted = []JobState{JobPending, JobRunning, JobSucceeded, JobFailed, JobDead, JobCancelled}
	}
	for _, state := range wanted {
		source := sourceOf(state)
		if filter.byNumber() {
			source = sourceByNumber
		}
		counts.ByState[state] = Count{More: cut[source] || scanned[source] > MaxStatsCount}
	}
	for _, row := range rows {
		state := JobState(row.State)
		if count, ok := counts.ByState[state]; ok {
			counts.ByState[state] = bounded(count.N+row.Matches, count.More)
		}
	}
	for _, count := range counts.ByState {
		counts.Total.N += count.N
		counts.Total.More = counts.Total.More || count.More
	}
	return counts, nil
}

// sourceByNumber is the source of counts that are taken by number, from all tables at once.
const sourceByNumber = 5

// sourceOf is which index counts a state, as the statement count numbers them.
func sourceOf(state JobState) int {
	switch state {
	case JobPending:
		return 1
	case JobRunning:
		return 2
	case JobSucceeded, JobCancelled:
		return 3
	default:
		return 4
	}
}

// AttentionReport is what failed and died, in groups.
type AttentionReport struct {
	Groups []AttentionGroup // the largest first, at most [MaxAttentionGroups]
	// More says that only the latest [MaxStatsCount] failed and dead jobs were looked at, and that there are more.
	More bool
}

// AttentionGroup is failed or dead jobs that failed in the same way: of one state, code, kind and queue.
type AttentionGroup struct {
	State       JobState
	Code        string // of the last error
	Kind        string
	Queue       string
	N           int
	First, Last time.Time // when the first and the last of them ended
	LastID      int64     // the last of them: an example
}

// Filter is the filter that finds the jobs of the group, to list them or to act on them.
func (g *AttentionGroup) Filter() Filter {
	return Filter{States: []JobState{g.State}, ErrorCode: g.Code, Kind: g.Kind, Queue: g.Queue}
}

// Attention groups the failed and dead jobs that match, among the latest [MaxStatsCount] that ended: what needs somebody's
// attention, and how much of it is one and the same trouble. filter.States may name failed or dead, or nothing, which
// means both.
func (i *Inspector) Attention(ctx context.Context, filter Filter) (*AttentionReport, error) {
	if err := runsOn(i.q); err != nil {
		return nil, fmt.Errorf("group failed jobs: %w", err)
	}
	if len(filter.States) > 0 && !filter.only(JobFailed, JobDead) {
		return nil, fmt.Errorf("group failed jobs: %w", invalid("filter.states", "may only name failed and dead"))
	}
	stored, err := filter.check()
	if err != nil {
		return nil, fmt.Errorf("group failed jobs: %w", err)
	}
	groups, more, err := i.store.Attention(ctx, i.q, stored, MaxStatsCount, MaxAttentionGroups)
	if err != nil {
		return nil, explained(err)
	}
	report := &AttentionReport{Groups: make([]AttentionGroup, len(groups)), More: more}
	for n, g := range groups {
		report.Groups[n] = AttentionGroup{
			State: JobState(g.State), Code: g.Code, Kind: g.Kind, Queue: g.Queue, N: g.N, First: g.First, Last: g.Last, LastID: g.LastID,
		}
	}
	return report, nil
}
