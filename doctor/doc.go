// Package doctor examines an installation of pgqueue and says what is wrong with it, why it matters, and the statement that mends it.
//
//	report, err := doctor.Examine(ctx, pool, doctor.Options{
//		Roles: []doctor.Role{{Name: "app", Purposes: []doctor.Purpose{doctor.Worker, doctor.Producer}}},
//	})
//	if err != nil {
//		return err // the database could not be reached
//	}
//	fmt.Print(report)
//
// It compares the catalog with what the migrations make; looks at roles, rights of everybody, row-level security and settings; at dead rows and at what keeps
// vacuum from removing them; at publications, foreign keys and triggers that others put on the tables; and at jobs, queues and
// partitions that no worker of pgqueue would leave as they are. docs/doctor.md lists the checks; [Checks] does so in Go.
//
// It changes nothing, needs no right but to read (what it may not see it says in [Report].Skipped), works on a standby, and costs far less
// than a second, however many jobs there are.
//
// # How it is built
//
// registry.go is the one table of all checks. Each is a function that reads and returns findings; the files are named after what they
// look at. session.go is the only way to the database. What differs from the migrations is found by [migrations.Validate]; drift*.go judge
// it, and statements.go finds in the migrations what makes an object again.
//
// The package imports pgx and migrations. Command line, console and the start of a worker use it; nothing below them does.
package doctor
