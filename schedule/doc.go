// Package schedule enqueues jobs by the clock: cron expressions with a time zone each, intervals, single instants.
//
//	scheduler, err := schedule.New(client, schedule.Config{
//		Source: "billing",
//		Schedules: []schedule.Schedule{
//			{Name: "invoices", Spec: "30 2 1 * *", TimeZone: "Europe/Copenhagen", Args: Invoices{}},
//			{Name: "rates", Spec: "@every 10m", Args: FetchRates{}, CatchUp: schedule.Skip},
//		},
//	})
//	err = scheduler.Run(ctx) // beside worker.Run, in an errgroup
//
// A schedule is a row of the table schedules, which programs register and people may edit: with an [Editor] or plain SQL.
//
// # Once
//
// Any number of processes run a scheduler; none of them is the leader. Each looks what is due, by the database's clock, and takes a
// schedule with FOR UPDATE SKIP LOCKED: one transaction writes the tick into schedule_ticks, where an instant of a schedule stands
// once, enqueues the job through [pgqueue.Client.Enqueue], and moves next_run_at on. So a tick is enqueued exactly once, or, if the
// transaction does not commit, again by whoever comes next. One transaction is about one schedule and is bounded in time; what hangs or
// fails is noted in last_error, logged, told to the observers, and tried again with a backoff from 1 s to a minute, and delays no other.
//
// Jobs themselves run at least once, and those of one schedule may overlap, unless its options give a key.
//
// # Who owns a schedule
//
// At its start a process registers the schedules of its code. A definition that the program has registered before changes nothing, so what
// people have edited survives restarts. A new definition replaces all that the code says (spec, zone, job), never whether it is enabled, nor
// its times. Of two versions the one that started last has said what counts.
//
// A schedule lives as long as any process lives that has it in its code, and [Config].RetireAfter longer: then another process of the same
// [Config].Source retires it. So a rolling deployment, a canary and a rollback lose nothing, and what was removed from the code stops. Where
// all processes of a program are gone, nobody retires anything, and the schedules go on with whatever schedulers there are. What was made
// by hand has no source and is never retired.
//
// # Neighbours
//
// The package stands on pgqueue alone. fields.go, wall.go and next.go are the calendar; plan.go decides what is to be done about a row;
// attempt.go is the transaction; run.go the loop; register.go what programs say; editor.go what people say; schedule.sql all statements.
// docs/schedules.md is the guide.
package schedule
