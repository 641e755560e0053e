// Package pgcontainer gives a test a migrated Postgres in a container, in one line:
//
//	db := pgcontainer.New(t)
//
// It is pgqueuetest.New on a server that testcontainers-go starts: one container for all tests of a process, and a database
// of its own for each, copied from a migrated template. It is a module of its own, so that only those who want containers
// depend on them; pgqueuetest alone starts a Postgres from this machine's binaries instead.
//
// A Docker-compatible engine must answer, wherever testcontainers-go finds it (DOCKER_HOST, the default socket, its own
// configuration file).
package pgcontainer
