package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"
)

// result is what a run found, and what its last line says.
type result struct {
	files         int     // rows of the index, whoever wrote them
	failed        int     // files whose job failed at their present content
	jobsPerSecond float64 // of this run, without the killed process's jobs
	recovered     float64 // seconds from the kill until the last of the killed process's jobs was finished; 0 without a kill
	doubled       int     // runs whose effects were committed twice
	lost          int     // files of the tree that are neither indexed nor failed
}

// String is the last line of a run that held everything it promises.
func (r result) String() string {
	return fmt.Sprintf("demo ok files=%d failed=%d jobs_per_s=%.0f recovered_s=%.1f doubled=%d lost=%d",
		r.files, r.failed, r.jobsPerSecond, r.recovered, r.doubled, r.lost)
}

// evidence is what the verdict rests on, beside the result.
type evidence struct {
	appended     int            // rows of demo.runs
	unrecorded   int            // files in which demo.files differs from the tree
	parsable     []string       // files that failed, although they parse
	failures     map[string]int // failed files by code
	enoughToKill bool           // there was enough work to kill a process over
	killed       bool
	recovery     recovery
}

// verdict returns what did not hold, joined, or nil.
func verdict(r result, e evidence) error {
	var errs []error
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(r.doubled != 0, "doubled=%d: runs were committed twice", r.doubled)
	refuse(r.lost != 0, "lost=%d: files are neither indexed nor failed", r.lost)
	refuse(e.unrecorded != 0, "%d files are not recorded as they are in the tree", e.unrecorded)
	refuse(e.appended-r.doubled != r.files, "%d files are indexed, but %d runs appended to the log", r.files, e.appended-r.doubled)
	for code, files := range e.failures {
		refuse(code != codeParse, "%d files failed with code %s", files, code)
	}
	refuse(len(e.parsable) > 0, "%d files failed but do parse, such as %q", len(e.parsable), e.parsable)
	refuse(e.enoughToKill && !e.killed, "no worker was seen with %d rows in its hands, so none was killed", killRows)
	refuse(e.killed && e.recovery.jobs == 0, "the killed process left no job behind")
	refuse(e.killed && e.recovery.finished != e.recovery.jobs, "of %d jobs of the killed process only %d were finished by the other",
		e.recovery.jobs, e.recovery.finished)
	return errors.Join(errs...)
}

// report prints totals and proof, and decides whether the run held what it promises.
func (r *demoRun) report(ctx context.Context) (result, error) {
	if err := r.printPackages(ctx); err != nil {
		return result{}, err
	}
	found, facts, err := r.examine(ctx)
	if err != nil {
		return result{}, err
	}
	r.printRun(found, facts)
	fmt.Fprintf(r.out, "\nThree queries to try in psql; %s:\n%s\n", r.howToConnect(), suggestions())
	if err := verdict(found, facts); err != nil {
		return result{}, err
	}
	return found, nil
}

// examine runs the proof, printing each query with its answer.
func (r *demoRun) examine(ctx context.Context) (found result, facts evidence, err error) {
	once, err := r.show(ctx, "Was every file indexed exactly once?", onceSQL)
	if err != nil {
		return found, facts, err
	}
	lost, err := r.show(ctx, "Was any file of the tree lost?", lostSQL)
	if err != nil {
		return found, facts, err
	}
	failed, err := r.show(ctx, "Which files failed?", failedSQL)
	if err != nil {
		return found, facts, err
	}
	numbers := []struct {
		from   answer
		column string
		into   *int
	}{
		{once, "indexed", &found.files}, {once, "doubled", &found.doubled}, {once, "appended", &facts.appended}, {lost, "lost", &found.lost},
	}
	for _, number := range numbers {
		if *number.into, err = number.from.count(number.column); err != nil {
			return found, facts, err
		}
	}
	if facts.failures, err = failed.byName(); err != nil {
		return found, facts, err
	}
	for _, files := range facts.failures {
		found.failed += files
	}
	if facts.unrecorded, err = r.unrecorded(ctx); err != nil {
		return found, facts, err
	}
	if facts.parsable, err = r.parsableFailures(ctx); err != nil {
		return found, facts, err
	}
	facts.enoughToKill, facts.killed = r.total() >= r.opts.killFrom, r.victim != nil
	if facts.recovery, err = recovered(ctx, r.pool, r.victim); err != nil {
		return found, facts, err
	}
	found.recovered = facts.recovery.done.Seconds()
	found.jobsPerSecond, err = r.speed(ctx)
	return found, facts, err
}

// show prints a question, its query and the answer.
func (r *demoRun) show(ctx context.Context, question, sql string) (answer, error) {
	got, err := ask(ctx, r.pool, sql)
	if err != nil {
		return answer{}, err
	}
	fmt.Fprintf(r.out, "\n%s\n%s;\n\n", question, indent(sql))
	got.print(r.out)
	return got, nil
}

// unrecorded counts where demo.files, on which the proof rests, differs from the tree.
func (r *demoRun) unrecorded(ctx context.Context) (int, error) {
	recorded, err := recordedFiles(ctx, r.pool)
	if err != nil {
		return 0, err
	}
	wrong := 0
	for _, file := range r.tree {
		if recorded[file.path].hash != file.hash {
			wrong++
		}
		delete(recorded, file.path)
	}
	return wrong + len(recorded), nil
}

// parsableFailures parses the files that failed once more and returns those that do parse. The others need no second
// look: a worker parsed them to write their row.
func (r *demoRun) parsableFailures(ctx context.Context) ([]string, error) {
	rows, err := r.pool.Query(ctx, `
		SELECT DISTINCT h.key
		FROM pgqueue.history h
		JOIN demo.files f ON f.path = h.key AND f.hash = h.revision
		WHERE h.queue = $1 AND h.state = 'failed'
		ORDER BY h.key`, indexQueue)
	if err != nil {
		return nil, fmt.Errorf("list the failed files: %w", err)
	}
	paths, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list the failed files: %w", err)
	}
	var parsable []string
	for _, path := range paths {
		source, err := os.ReadFile(filepath.Join(r.opts.root, filepath.FromSlash(path)))
		if err != nil {
			return nil, fmt.Errorf("read a failed file again: %w", err)
		}
		if _, err := parseSource(path, source); err == nil {
			parsable = append(parsable, path)
		}
	}
	return parsable, nil
}

// speed is the number of jobs a second that ended in this run, between the first claim and the last end. The killed
// process's jobs are left out: they would measure the length of a lease.
func (r *demoRun) speed(ctx context.Context) (float64, error) {
	left := []int64{}
	if r.victim != nil {
		left = r.victim.jobs
	}
	var perSecond float64
	err := r.pool.QueryRow(ctx, `
		SELECT coalesce(count(*) / nullif(extract(epoch FROM max(finished_at) - min(claimed_at)), 0), 0)::float8
		FROM pgqueue.history
		WHERE queue = $1 AND finished_at >= $2 AND id <> ALL ($3)`, indexQueue, r.started, left).Scan(&perSecond)
	if err != nil {
		return 0, fmt.Errorf("ask how fast it was: %w", err)
	}
	return perSecond, nil
}

// printRun says what this run did.
func (r *demoRun) printRun(found result, facts evidence) {
	fmt.Fprintln(r.out)
	say(r.out, "index", "%d files; %d do not parse, and should not", found.files, facts.failures[codeParse])
	if r.total() > 0 {
		say(r.out, "speed", "%.0f jobs/s by %d processes with 2 workers each, parsing included", found.jobsPerSecond, workerProcesses)
	}
	switch back := facts.recovery; {
	case facts.killed:
		say(r.out, "recovery", "process %d was killed with %d jobs in its hands; %d were claimed again within %.1f s", r.victim.worker.pid,
			back.jobs, back.finished, back.claimed.Seconds())
		say(r.out, "", "and finished within %.1f s of the kill, all by the other process", back.done.Seconds())
	case r.total() > 0 && !facts.enoughToKill:
		say(r.out, "recovery", "no process was killed: %d jobs are too little to do, it takes %d", r.total(), r.opts.killFrom)
	}
}

// howToConnect says how to reach the database after this run.
func (r *demoRun) howToConnect() string {
	if r.db.server == nil {
		return r.db.psql()
	}
	return "`make demo-serve` starts the database again and prints its URL"
}
