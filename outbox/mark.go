package outbox

import (
	"cmp"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// mark saves claims in a backlog from walking over what the claims before them have taken: each starts where the last one
// ended. It is used while claims come back full only, and for a tenth of a second at a time; then, and before an
// answer may be empty, the walk is taken from the beginning. So a row that commits late, or is put back, is found in time
// whatever its due time and key.
type mark struct {
	mu   sync.Mutex
	at   place
	full time.Time // when the last walk from the beginning began
	used bool
}

const markFor = 100 * time.Millisecond

// place is a place in the order of claims.
type place struct{ due, created pgtype.Timestamptz }

func beginning() place {
	first := pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	return place{first, first}
}

func placeOf(t *claimToken) place { return place{t.due, t.createdAt} }

func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(micros(p.due), micros(other.due)), cmp.Compare(micros(p.created), micros(other.created)))
}

// begin says where a claim starts, and whether that is the beginning.
func (m *mark) begin() (from place, full bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.used || time.Since(m.full) >= markFor {
		m.full = time.Now()
		return beginning(), true
	}
	return m.at, false
}

// done takes note of where a claim ended.
func (m *mark) done(claimed []*claimToken, limit int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used = len(claimed) >= limit
	if !m.used {
		return
	}
	m.at = placeOf(claimed[0])
	for _, t := range claimed[1:] {
		if at := placeOf(t); m.at.compare(at) < 0 {
			m.at = at
		}
	}
	if !m.at.created.Valid { // nothing sorts after it
		m.used = false
	}
}
