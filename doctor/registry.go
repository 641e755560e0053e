package doctor

import "context"

// Check is one thing that an examination looks at.
type Check struct {
	// ID is stable: it stays the same from version to version.
	ID string
	// Severity is that of its worst finding.
	Severity Severity
	// Meaning says what its finding means, in one sentence.
	Meaning string
}

// Checks lists all checks in the order in which they are made and told.
func Checks() []Check {
	all := registry()
	checks := make([]Check, len(all))
	for i := range all {
		checks[i] = all[i].Check
	}
	return checks
}

// entry is a check and what makes it.
type entry struct {
	Check
	run func(ctx context.Context, x *examination) ([]Finding, error)
	// needsTables: without pgqueue's tables there is nothing to look at.
	needsTables bool
}

// setting makes the check of a group of settings.
func setting(check string) func(context.Context, *examination) ([]Finding, error) {
	return func(ctx context.Context, x *examination) ([]Finding, error) { return x.badSettings(ctx, check) }
}

// registry is the one table of all checks. Its order matters where fixes build upon each other: tables before columns, columns before
// constraints and indexes, and views, which read all of them, last.
func registry() []entry {
	return []entry{
		{Check{"schema-version", Error, "The schema is missing, older or newer than this binary knows, or its migration was interrupted."}, schemaVersion, false},
		{Check{"standby", Warning, "The server is a standby and takes no writes."}, readOnlyServer, false},

		{Check{"drift-table", Error, "A table of the migrations is missing, unlogged, or otherwise not as they made it."}, driftTables, true},
		{Check{"drift-column", Error, "A column is missing, is changed, or is none of the migrations' making."}, driftColumns, true},
		{Check{"drift-constraint", Error, "A constraint is missing, changed, not validated, or none of the migrations' making."}, driftConstraints, true},
		{Check{"drift-index", Error, "An index is missing, changed, or none of the migrations' making."}, driftIndexes, true},
		{Check{"drift-sequence", Error, "The sequence of the job numbers counts in another way."}, driftSequences, true},
		{Check{"drift-function", Error, "A function is missing, changed, doubled, or open to everybody."}, driftFunctions, true},
		{Check{"drift-trigger", Error, "A trigger of the migrations is missing, changed, or switched off."}, driftTriggers, true},
		{Check{"drift-view", Error, "A view is missing or changed."}, driftViews, true},
		{Check{"drift-storage", Warning, "A storage parameter, such as fillfactor or a threshold of autovacuum, was changed."}, driftStorage, true},
		{Check{"drift-comment", Info, "Comments are missing."}, driftComments, true},
		{Check{"column-tuning", Warning, "The statistics or the storage of a column were changed."}, tunedColumns, true},
		{Check{"index-invalid", Error, "An index is not valid: everybody pays for it and nobody may use it."}, invalidIndexes, true},
		{Check{"index-debris", Warning, "An interrupted REINDEX CONCURRENTLY left an index behind."}, indexDebris, true},

		{Check{"role-missing", Error, "A role that was named does not exist."}, missingRole, false},
		{Check{"rights", Error, "A role lacks rights for what it is meant to do."}, missingRights, true},
		{Check{"owner", Error, "Functions, views or tables belong to different owners."}, foreignOwners, true},
		{Check{"open-to-all", Error, "Tables, views or the schema are open to everybody."}, openToAll, true},
		{Check{"row-security", Error, "Row-level security hides jobs from a role."}, rowSecurity, true},

		{Check{"dead-rows", Warning, "A table has far more dead rows than autovacuum means to leave."}, deadRows, true},
		{Check{"autovacuum-off", Error, "Autovacuum is off, for a table or for the server."}, autovacuumOff, true},
		{Check{"oldest-xmin", Warning, "A session in a long transaction holds back vacuum."}, oldestXmin, false},
		{Check{"prepared-transaction", Error, "A prepared transaction that nobody ended holds back vacuum."}, preparedTransactions, false},
		{Check{"replication-slot", Error, "Nobody reads from a replication slot; it retains WAL and holds back vacuum."}, replicationSlots, false},
		{Check{"standby-feedback", Warning, "A query on a standby holds back vacuum."}, standbyFeedback, false},
		{Check{"notify-queue", Error, "The NOTIFY queue fills up."}, notifyQueue, false},
		{Check{"wraparound", Error, "The oldest row of a table is near the end of the transaction numbers."}, oldRows, true},
		{Check{"bloat", Info, "A table or index takes far more space than its rows need."}, bloat, true},

		{Check{"publication", Warning, "Tables of pgqueue are in a publication."}, publications, true},
		{Check{"foreign-key", Error, "A foreign key points at a table of pgqueue."}, foreignKeys, true},
		{Check{"inheritance", Error, "A table inherits from one of pgqueue's, or one of them from another."}, inheritance, true},
		{Check{"trigger", Warning, "There are triggers or rules of others on tables of pgqueue."}, triggers, true},

		{Check{"sequence-behind", Error, "The next job would get a number that is taken."}, sequenceBehind, true},
		{Check{"sequence-limit", Error, "The job numbers are beyond 2^53."}, sequenceLimit, true},
		{Check{"lease-expired", Error, "Leases ran out long ago and nobody returned the jobs."}, expiredLeases, true},
		{Check{"lease-far", Warning, "Leases end so late that nobody would notice a dead process."}, farLeases, true},
		{Check{"job-unclaimed", Warning, "Jobs are running and no worker is named."}, unclaimed, true},
		{Check{"job-numbers", Warning, "Attempts or generations of running jobs cannot be."}, oddNumbers, true},
		{Check{"job-endless", Warning, "Jobs are due at an infinite time, or in a hundred years."}, endlessJobs, true},
		{Check{"queue-paused", Warning, "A queue or a kind has been paused for long, with no end."}, pausedQueues, true},
		{Check{"queue-unserved", Warning, "Jobs are due in a queue that no live worker serves."}, unservedQueues, true},
		{Check{"kind-unserved", Warning, "Jobs are due for which no live worker of their queue has a handler."}, unservedKinds, true},

		{Check{"schedule-overdue", Warning, "Ticks of schedules have passed and nobody enqueued their jobs."}, overdueSchedules, true},
		{Check{"schedule-failing", Warning, "A schedule cannot be understood, or its job not be enqueued."}, failingSchedules, true},
		{Check{"unique-key-expired", Warning, "Unique keys expired long ago and nobody deleted them."}, expiredKeys, true},

		{Check{"history-ahead", Error, "Partitions of history are missing for today or the days ahead."}, historyAhead, true},
		{Check{"history-old", Warning, "Partitions of history are older than it is kept."}, historyOld, true},
		{Check{"history-detached", Error, "A partition of history is detached by half, or is there and not attached."}, historyDetached, true},
		{Check{"history-foreign", Warning, "History has a default partition, or another that pgqueue did not make."}, historyForeign, true},

		{Check{"setting-durability", Error, "fsync, full_page_writes or synchronous_commit is off."}, setting("setting-durability"), false},
		{Check{"setting-read-only", Error, "Transactions are read-only by default."}, setting("setting-read-only"), false},
		{Check{"setting-isolation", Warning, "Transactions are REPEATABLE READ or SERIALIZABLE by default."}, setting("setting-isolation"), false},
		{Check{"setting-encoding", Error, "client_encoding is not UTF-8."}, setting("setting-encoding"), false},
		{Check{"setting-statistics", Error, "track_counts or track_activities is off."}, setting("setting-statistics"), false},
		{Check{"setting-timeout", Warning, "A timeout is too short for pgqueue."}, setting("setting-timeout"), false},
		{Check{"connections", Warning, "Most of the connections of the server, the database or a role are in use."}, connections, false},
	}
}
