// Package citus runs the core path of pgqueue on a Citus cluster: `make test-citus`, on the coordinator's database that
// PGQUEUE_CITUS_URL names. Its tests have the build tag citus, so that no other suite asks for a cluster; they fail where the
// variable is missing. docs/scaling.md says what works there and what does not.
package citus
