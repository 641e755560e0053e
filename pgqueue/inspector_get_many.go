package pgqueue

import (
	"context"
	"fmt"
)

// MaxGetMany is how many jobs one [Inspector.GetMany] reads at most.
const MaxGetMany = 1_000

// GetMany is [Inspector.Get] for several jobs, from one snapshot: for an export, say. They come in the order of ids; those that are not there,
// or no longer, are left out. It holds all of them in memory, payloads and results as well, so ask for no more at once than fit.
func (i *Inspector) GetMany(ctx context.Context, ids []int64) ([]*JobDetail, error) {
	if err := runsOn(i.q); err != nil {
		return nil, fmt.Errorf("get jobs: %w", err)
	}
	if len(ids) > MaxGetMany {
		return nil, fmt.Errorf("get jobs: %w", invalid("ids", fmt.Sprintf("are too many: %d where %d are allowed", len(ids), MaxGetMany)))
	}
	if len(ids) == 0 {
		return nil, nil
	}
	records, err := i.store.ReadMany(ctx, i.q, ids)
	if err != nil {
		return nil, explained(err)
	}
	jobs := make([]*JobDetail, 0, len(records))
	for _, id := range ids {
		record, ok := records[id]
		if !ok {
			continue
		}
		job := &JobDetail{JobStatus: *i.client.statusOf(ctx, record)}
		job.Attempts = attemptsOf(&job.JobStatus)
		i.addProgress(ctx, job)
		jobs = append(jobs, job)
	}
	return jobs, nil
}
