package health

import "time"

// Source is what can be asked how it is. Health must be cheap, must not ask the database, and is called by several
// goroutines at a time.
type Source interface{ Health() Health }

// Health is what a worker says about itself at one moment.
type Health struct {
	// Name tells this source from others of the process: a worker's id. It may be empty.
	Name string `json:"name,omitempty"`
	// Ready says that work is being done, or would be if there were any: every loop makes progress.
	Ready bool `json:"ready"`
	// Live says that a restart would not help. It is true while the database is away, and for what does not run.
	Live bool `json:"live"`
	// Loops has one entry a loop, in a stable order.
	Loops []Loop `json:"loops"`
}

// Loop is one loop of a worker, such as "claim:mail" or "listener".
type Loop struct {
	// Name is the loop and, where there is one per queue, the queue after a colon. In the answer of a handler with several
	// sources the source's name and a slash stand before it.
	Name string `json:"name"`
	// OK says that the loop makes progress. A false one makes Ready false.
	OK bool `json:"ok"`
	// Dead says that the loop has ended, or hangs beyond its own time limits: only a restart helps. It makes Live false.
	Dead bool `json:"dead,omitempty"`
	// Since is when the loop last made progress, on this process's clock; zero if it never did.
	Since time.Time `json:"since,omitzero"`
	// Detail says in a few words what is the matter, without secrets: of an error of the database only its SQLSTATE. It is
	// empty where nothing is.
	Detail string `json:"detail,omitempty"`
}
