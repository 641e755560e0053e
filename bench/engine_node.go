package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

// nodeFolder is where scripts/setup-bench.sh installs the peers that are written for Node, from the folder of the bench.
const nodeFolder = "node"

// The oldest Node that they take.
const nodeMajor, nodeMinor = 22, 18

// nodeTables are what the bench reads of such a peer.
type nodeTables struct {
	settings map[string]string
	history  bool
	table    string
	pending  string // whether anything is still to do
	count    string // what is to do, and the successes that are kept
}

func tablesOf(family string) nodeTables {
	if family == "graphile-worker" {
		return nodeTables{
			settings: map[string]string{tuned: "jobs=24 localQueue=500 completeJobBatchDelay=0", defaults: "defaults"},
			table:    "graphile_worker._private_jobs",
			pending:  `SELECT EXISTS (SELECT FROM graphile_worker._private_jobs)`,
			count:    `SELECT count(*), 0 FROM graphile_worker._private_jobs`,
		}
	}
	return nodeTables{
		settings: map[string]string{tuned: "batchSize=1000 localConcurrency=2 burstWhenBatchFull notify poll=500ms", defaults: "defaults"},
		history:  true,
		table:    "pgboss.job",
		pending:  `SELECT EXISTS (SELECT FROM pgboss.job WHERE name = 'noop' AND state < 'completed')`,
		count: `SELECT count(*) FILTER (WHERE state < 'completed'), count(*) FILTER (WHERE state = 'completed')
			FROM pgboss.job WHERE name = 'noop'`,
	}
}

// nodeEngine is a peer for Node, which bench/node/driver.mjs runs in a process of its own.
func nodeEngine(family, variant string) engine {
	tables := tablesOf(family)
	e := engine{family: family, variant: variant, history: tables.history, settings: tables.settings[variant], needs: needsNode}
	e.open = func(ctx context.Context, db *database) (system, error) {
		process, err := launchNode(ctx, e, db.url, db.size)
		if err != nil {
			return nil, err
		}
		return &nodeSystem{remote: process, pool: db.pool, tables: tables}, nil
	}
	return e
}

// nodeSystem reads its tables from here.
type nodeSystem struct {
	*remote
	pool   *pgxpool.Pool
	tables nodeTables
}

func (s *nodeSystem) pending(ctx context.Context) (open bool, err error) {
	err = s.pool.QueryRow(ctx, s.tables.pending).Scan(&open)
	return open, err
}

func (s *nodeSystem) count(ctx context.Context) (open, kept int, err error) {
	err = s.pool.QueryRow(ctx, s.tables.count).Scan(&open, &kept)
	return open, kept, err
}

func (s *nodeSystem) table() string { return s.tables.table }

func (s *nodeSystem) close(context.Context) { s.end() }

func launchNode(ctx context.Context, e engine, url string, pool int) (*remote, error) {
	node, err := findNode(ctx)
	if err != nil {
		return nil, err
	}
	command := exec.Command(node, "driver.mjs", e.family, e.variant, url, strconv.Itoa(pool))
	command.Dir = nodeFolder
	return launch(ctx, command)
}

// findNode answers a Node that is new enough: the one of the npm package, or the machine's.
func findNode(ctx context.Context) (string, error) {
	if _, err := os.Stat(filepath.Join(nodeFolder, "node_modules", "pg-boss")); err != nil {
		return "", errors.New("its npm packages are not installed (scripts/setup-bench.sh)")
	}
	packaged := filepath.Join(nodeFolder, "node_modules", "node", "bin", "node")
	if runtime.GOOS == "windows" {
		packaged += ".exe"
	}
	candidates := []string{"node"}
	if packaged, err := filepath.Abs(packaged); err == nil {
		candidates = []string{packaged, "node"}
	}
	var seen []string
	for _, candidate := range candidates {
		out, err := exec.CommandContext(ctx, candidate, "--version").Output()
		if err != nil {
			continue
		}
		version := strings.TrimSpace(string(out))
		if newEnough(version) {
			return candidate, nil
		}
		seen = append(seen, version)
	}
	return "", fmt.Errorf("it needs Node %d.%d or later, here is %s (scripts/setup-bench.sh)", nodeMajor, nodeMinor,
		strings.Join(append(seen, "no other"), ", "))
}

// newEnough reads a version such as v22.23.3.
func newEnough(version string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(version, "v%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > nodeMajor || major == nodeMajor && minor >= nodeMinor
}
