// Package migrations installs, upgrades and removes the tables of pgqueue.
//
// The SQL lies in plain golang-migrate files, written as templates so that they work in a schema of any name, also in one that needs
// quoting. [Up] applies them from Go, [Down] removes everything again, [Status] says which version is there, and [Validate] compares the
// catalog with what the migrations make. [FS] and [WriteFiles] give the same files rendered for one schema, for those who apply migrations with the golang-migrate command line; README.md in this folder has the
// commands. Both ways keep the same version table and may be mixed.
//
// # The version table
//
// It is called pgqueue_migrations and lives in pgqueue's own schema. The name is not golang-migrate's default on purpose: an application
// that uses golang-migrate itself keeps its own schema_migrations, and the two never meet, even where pgqueue is installed into the
// schema "public".
//
// # One step, one transaction
//
// From Go, each version of an upgrade is one transaction, and so is a first installation or a removal for all versions together. It holds the
// lock against other migrators, makes the schema and the version table if they are missing, applies the file and writes the version. A process that is killed half-way leaves nothing behind, and the dirty flag of
// golang-migrate is never set. The command line sets it in a transaction of its own before the file runs; if it is killed in between, Up
// looks whether the objects of that version exist, corrects the version and goes on.
//
// # What a schema should look like
//
// facts.sql reads the catalog as plain facts, the same for a schema of any name; expected.txt has those of a fresh installation on each
// supported version of Postgres. After a change of the SQL it is made anew by
//
//	go test ./migrations -run TestTheExpectationIsWhatTheMigrationsMake -update
//
// A test fails until that is done. drift.go compares the two for [Validate].
//
// # Compatibility
//
// A schema of version N works with the binaries made for N and for N-1. Up and Down of a binary that knows less than the schema change
// nothing and return a [*NewerSchemaError].
//
// This package imports pgx and golang-migrate and nothing else of pgqueue.
package migrations
