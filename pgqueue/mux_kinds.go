package pgqueue

import (
	"fmt"
	"slices"

	"github.com/pgqueue/pgqueue/runner"
)

// KindMaxAttempts bounds how many attempts of a job of the kind may fail, beside the budget that the job was enqueued
// with: the lower of the two counts, so a handler that knows that five tries are pointless need not trust every producer.
// An attempt that fails as the n-th makes the job dead, and max_attempts in its history says n. Attempts whose lease ran
// out are counted by whoever returns them, against the job's own budget. The default, and zero, is no such bound; see
// [WithMaxAttempts] for the budget itself.
func KindMaxAttempts(n int) HandleOption { return func(o *handleOptions) { o.maxAttempts = n } }

// KindAliases names further kinds whose jobs go to this handler, for a kind that was renamed: first deploy workers that know
// both names, then enqueue under the new one. The jobs keep the kind that they were enqueued with, also in [JobInfo].Kind,
// and share the bounds of this one. Keys do not carry over: a key may be live once under each name. An alias that has a
// handler of its own, or is the alias of another kind, is an error of the mux.
func KindAliases(kinds ...string) HandleOption {
	return func(o *handleOptions) { o.aliases = append(o.aliases, kinds...) }
}

// free checks that a kind and its aliases have no handler yet. The caller holds the mutex.
func (m *Mux) free(kind string, aliases []string) error {
	taken := map[string]bool{}
	for name, entry := range m.handlers {
		taken[name] = true
		for _, alias := range entry.options.aliases {
			taken[alias] = true
		}
	}
	if taken[kind] {
		return &ValidationError{Field: "handler", Message: fmt.Sprintf("of kind %q is registered already", kind)}
	}
	for i, alias := range aliases {
		if err := checkName("alias", alias); err != nil {
			return fmt.Errorf("register a handler of kind %q: %w", kind, err)
		}
		if taken[alias] || alias == kind || slices.Contains(aliases[:i], alias) {
			return &ValidationError{Field: "alias", Message: fmt.Sprintf("%q of kind %q has a handler already", alias, kind)}
		}
	}
	return nil
}

// kindNames are the kinds to claim, aliases included.
func kindNames(kinds []runner.KindConfig) []string {
	names := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		names = append(names, kind.Name)
		names = append(names, kind.Aliases...)
	}
	return names
}
