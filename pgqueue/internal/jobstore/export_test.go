package jobstore

import (
	"time"
)

// ClaimSQL is the claim statement, for EXPLAIN.
func (s *Store) ClaimSQL() string { return s.sql.claim }

// SQL is a statement by its name in the files, for EXPLAIN.
func (s *Store) SQL(name string) string {
	if name == "enqueue" {
		return s.produce.enqueue // with the sequence's name in it
	}
	found, err := loadStatements(s.schema)
	if err != nil {
		return err.Error() // no SQL: the statement that it is put into fails, and says so
	}
	return found[name]
}

// OnlyMarks makes the full scans so far look so dear that claims start at their marks from now on.
func (q *Queue) OnlyMarks() {
	q.marks.mu.Lock()
	defer q.marks.mu.Unlock()
	for _, set := range q.marks.sets {
		set.fullCost, set.lastFull = [2]time.Duration{time.Hour, time.Hour}, time.Now()
		set.markTime = time.Time{}
	}
	q.marks.longest = time.Hour
}

// FullScan makes the next claim a full scan.
func (q *Queue) FullScan() {
	q.marks.mu.Lock()
	defer q.marks.mu.Unlock()
	for _, set := range q.marks.sets {
		set.lastFull = time.Time{}
	}
}

// Explicit tells whether statements run in transactions of their own.
func (q *Queue) Explicit() bool { return q.explicit.Load() }

// ReapFrom tells where the next pass of the reaper starts, as text.
func (q *Queue) ReapFrom() string {
	q.reap.mu.Lock()
	defer q.reap.mu.Unlock()
	if q.reap.from.InfinityModifier != 0 {
		return "-infinity"
	}
	return q.reap.from.Time.Format(time.RFC3339Nano)
}

// ReapFromStart makes the next pass of the reaper start at the very beginning.
func (q *Queue) ReapFromStart() { q.reap.move(beginning().runAt) }

// AlwaysFull makes every claim a full scan, however slow the machine is.
func (q *Queue) AlwaysFull() { q.marks.cheap = time.Hour }

// LastFullCost is what the latest full scan of all kinds cost.
func (q *Queue) LastFullCost() time.Duration {
	q.marks.mu.Lock()
	defer q.marks.mu.Unlock()
	return q.marks.sets[q.all].fullCost[1]
}

// AuditSQL is the statement that reads the audit log, or what is in it of one job.
func (s *Store) AuditSQL(ofJob bool) string {
	if ofJob {
		return s.audit.logOfJob
	}
	return s.audit.log
}
