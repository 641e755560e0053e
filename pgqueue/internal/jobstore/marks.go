package jobstore

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// A long transaction anywhere in the database stops vacuum; then every claim walks the dead index entries of all jobs
// that were claimed since. marks remembers how far the claims of one queue have come, so that a claim can start there
// instead. A mark is a hint and no promise: transactions do not commit in the order of their run_at, and jobs are put
// back below it. So claims scan fully as long as that is cheap, and when it is dear now and then all the same.
//
// Every time in a mark comes from the database. The Go clock only measures durations.
type marks struct {
	poll    time.Duration // dear full scans are at least so far apart
	longest time.Duration // and at most so far
	margin  time.Duration // how far marks stay behind the database's now
	cheap   time.Duration // a full scan that takes less is rationed in a backlog only

	mu   sync.Mutex
	sets map[string]*markSet // by kinds
}

// mark is a place in the index of one priority: everything before it has been claimed, or is somebody else's.
type mark struct {
	runAt pgtype.Timestamptz
	id    int64
}

// markSet are the marks of claims for the same kinds, and what their scans cost.
type markSet struct {
	at       [5]mark // by priority; 0 is not used
	epoch    int     // rises when a mark is lowered: answers of claims that began before may not raise it again
	lastFull time.Time
	filled   bool             // the last claim found as much as it asked for
	fullCost [2]time.Duration // of the last two full scans: one slow one may be chance
	markCost time.Duration    // of the last scan from the marks, and when it was
	markTime time.Time
	wasFull  bool // the last scan was
}

// start is where a claim begins, and what done must know about it.
type start struct {
	kinds string
	epoch int
	full  bool
	runAt []pgtype.Timestamptz
	id    []int64
}

const (
	// rowCost is taken off a scan's duration for each row that it claimed: finding and locking it is work, not walking.
	rowCost = 500 * time.Nanosecond
	// While claims find all that they ask for, full scans that are cheap, but not next to nothing, are so far apart. A
	// late job that belongs before the others waits for that long.
	backlogGap   = 100 * time.Millisecond
	backlogShare = 25
	// markCostAge is how long the cost of a mark scan is a fair comparison for a full one.
	markCostAge = 10 * time.Second
	// maxSets bounds the sets of kinds that are remembered: with n kinds at their bounds there could be 2 to the n.
	maxSets = 16
)

// beginning is before everything.
func beginning() mark {
	return mark{runAt: pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}}
}

// before tells whether m comes before other in the index.
func (m mark) before(other mark) bool {
	a, b := micros(m.runAt), micros(other.runAt)
	return a < b || a == b && m.id < other.id
}

// scanKey is the name of a set: kinds and classes in any order, nil apart from no kinds.
func scanKey(kinds []string, classes []int16) string {
	var key strings.Builder
	for class := range int16(4) {
		if slices.Contains(classes, class+1) {
			key.WriteByte('1' + byte(class))
		}
	}
	for _, kind := range slices.Sorted(slices.Values(kinds)) {
		key.WriteByte(0)
		key.WriteString(kind)
	}
	if kinds == nil {
		key.WriteString("*")
	}
	return key.String()
}

// begin says where a claim of kinds over classes starts. base are all kinds of this queue: their marks hold for a part
// of them as well, but not the other way round, since a claim for a part passes over the others' jobs.
func (m *marks) begin(kinds, base string, classes []int16) start {
	m.mu.Lock()
	defer m.mu.Unlock()
	set := m.set(kinds, base)
	from := start{kinds: kinds, epoch: set.epoch, full: m.wantFull(set)}
	for _, class := range classes {
		at := beginning()
		if !from.full && class >= 1 && class <= 4 {
			at = set.at[class]
		}
		from.runAt = append(from.runAt, at.runAt)
		from.id = append(from.id, at.id)
	}
	return from
}

// set finds or makes the set of kinds. The caller holds mu.
func (m *marks) set(kinds, base string) *markSet {
	if set, ok := m.sets[kinds]; ok {
		return set
	}
	whole := m.sets[base]
	if m.sets == nil || len(m.sets) >= maxSets {
		m.sets = map[string]*markSet{}
		if whole != nil {
			m.sets[base] = whole
		}
	}
	set := &markSet{}
	if whole != nil {
		set.at = whole.at
	} else {
		for i := range set.at {
			set.at[i] = beginning()
		}
	}
	m.sets[kinds] = set
	return set
}

// wantFull decides whether the next scan of set is a full one. The caller holds mu.
func (m *marks) wantFull(set *markSet) bool {
	cost := min(set.fullCost[0], set.fullCost[1])
	if set.lastFull.IsZero() {
		return true
	}
	if cost <= m.cheap {
		// In a backlog claims follow each other at once, and what one has taken is in the way of the next.
		return !set.filled || cost <= m.cheap/backlogShare || time.Since(set.lastFull) >= backlogGap
	}
	gap := min(max(9*cost, m.poll), m.longest)
	if time.Since(set.markTime) < markCostAge && cost <= 2*set.markCost {
		// Both are slow: it is the server, not the walk. Or it was: right behind a crowd of jobs of other kinds the margin keeps
		// the marks before them for a while. So the marks are tried again at every other claim.
		return !set.wasFull || time.Since(set.lastFull) >= gap
	}
	return time.Since(set.lastFull) >= gap
}

// done moves the marks to where a claim came. rows are in the wanted order, limit is what the claim asked for.
func (m *marks) done(from start, head envelope, classes []int16, rows []claimedRow, limit int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	set, ok := m.sets[from.kinds]
	if !ok {
		return
	}
	set.filled = len(rows) >= limit
	set.wasFull = from.full
	cost := max(time.Duration(head.took)*time.Microsecond-time.Duration(len(rows))*rowCost, 0)
	if from.full {
		set.fullCost[0], set.fullCost[1], set.lastFull = set.fullCost[1], cost, time.Now()
	} else {
		set.markCost, set.markTime = cost, time.Now()
	}
	if head.pausedUntil.Valid || head.hides || !head.now.Valid || from.epoch != set.epoch {
		return // a paused queue, and a paused kind, answers nothing although there may be something
	}

	// The margin holds against jobs that were enqueued before head.now and commit later. Inside an old backlog nothing of the
	// kind is expected, and there the mark is exact: a bulk insert gives a million rows one run_at.
	latest := mark{runAt: head.now}
	latest.runAt.Time = latest.runAt.Time.Add(-m.margin)
	exhausted := len(classes)
	reached := latest
	if len(rows) >= limit {
		last := rows[len(rows)-1]
		exhausted = slices.Index(classes, last.row.Priority)
		reached = last.mark()
		if latest.before(reached) {
			reached = latest
		}
	}
	for i, class := range classes {
		if class < 1 || class > 4 || i > exhausted {
			continue
		}
		to := latest
		if i == exhausted {
			to = reached
		}
		// A full scan may have found jobs below the mark, with more behind them.
		if from.full && to.before(set.at[class]) {
			set.epoch++
		}
		if from.full || set.at[class].before(to) {
			set.at[class] = to
		}
	}
}

// lower takes back the marks that a job which was put back would be behind.
func (m *marks) lower(priority int16, at mark) {
	if priority < 1 || priority > 4 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, set := range m.sets {
		if at.before(set.at[priority]) {
			set.at[priority] = at
			set.epoch++
		}
	}
}

// probed takes note of a probe by reading: one that found nothing due has done what a full claim would have done.
func (m *marks) probed(from start, due bool, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	set, ok := m.sets[from.kinds]
	if !ok {
		return
	}
	set.wasFull = from.full
	if due || !from.full {
		return
	}
	set.fullCost[0], set.fullCost[1], set.lastFull = set.fullCost[1], took, time.Now()
}
