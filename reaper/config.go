package reaper

import (
	"fmt"
	"log/slog"
	"math"
	"time"
)

// Defaults of [Config].
const (
	DefaultInterval      = 5 * time.Second
	DefaultJitter        = 0.2
	DefaultLimit         = 500
	DefaultGrace         = 10 * time.Second
	DefaultMaintainEvery = time.Hour
	DefaultCallTimeout   = 5 * time.Second
)

// Config says how often a [Reaper] works and how much at a time. The zero value of a field means its default.
type Config struct {
	// Interval is the longest time between two passes of a target, from the end of one to the start of the next. The passes of all
	// targets start together. 5 s.
	Interval time.Duration

	// Jitter is the share by which each wait is shorter, at random, so that a fleet does not reap in step.
	// From 0 to below 1; 0 means the default of 0.2, a negative one means none.
	Jitter float64

	// Limit is how many leases one Recover may take. A full one is repeated at once, up to 100 times in a pass. 500.
	Limit int

	// Grace is how long a target must have answered again after a failed Recover before leases are taken, so that
	// living workers can renew theirs first: their renewal interval. 10 s; a negative one means none.
	Grace time.Duration

	// MaintainEvery is the time between two Maintain of a target; the first is at the start. A failed one is tried
	// again after Interval, then after twice that, and so on, up to MaintainEvery. One hour.
	MaintainEvery time.Duration

	// CallTimeout bounds each call of a target. 5 s.
	CallTimeout time.Duration

	// Logger gets a warning when a target begins to fail, and one a minute while it goes on. Nil means slog.Default().
	Logger *slog.Logger

	// Observer may implement any of the observer interfaces of this package; what it does not implement is not called.
	Observer any
}

// ConfigError says which field of a [Config] or [Target] cannot be used, and why.
type ConfigError struct {
	Field   string
	Message string
}

// Error implements error.
func (e *ConfigError) Error() string { return fmt.Sprintf("reaper: %s %s", e.Field, e.Message) }

// check validates config and returns it with the defaults put in.
func (config Config) check() (Config, error) {
	for _, duration := range []struct {
		field    string
		value    *time.Duration
		fallback time.Duration
	}{
		{"Interval", &config.Interval, DefaultInterval},
		{"MaintainEvery", &config.MaintainEvery, DefaultMaintainEvery},
		{"CallTimeout", &config.CallTimeout, DefaultCallTimeout},
	} {
		switch {
		case *duration.value < 0:
			return config, &ConfigError{duration.field, fmt.Sprintf("is negative (%s)", *duration.value)}
		case *duration.value == 0:
			*duration.value = duration.fallback
		}
	}
	switch {
	case config.Grace == 0:
		config.Grace = DefaultGrace
	case config.Grace < 0:
		config.Grace = 0
	}
	switch {
	case config.Limit < 0:
		return config, &ConfigError{"Limit", fmt.Sprintf("is negative (%d)", config.Limit)}
	case config.Limit == 0:
		config.Limit = DefaultLimit
	}
	switch {
	case config.Jitter >= 1 || math.IsNaN(config.Jitter):
		return config, &ConfigError{"Jitter", fmt.Sprintf("is %v, not below 1", config.Jitter)}
	case config.Jitter == 0:
		config.Jitter = DefaultJitter
	case config.Jitter < 0:
		config.Jitter = 0
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	return config, nil
}

// checkTargets validates what New was given to look after.
func checkTargets(targets []Target) error {
	seen := map[string]bool{}
	for i, target := range targets {
		switch {
		case target.Name == "":
			return &ConfigError{fmt.Sprintf("Target[%d].Name", i), "is empty"}
		case seen[target.Name]:
			return &ConfigError{fmt.Sprintf("Target[%d].Name", i), fmt.Sprintf("%q stands there twice", target.Name)}
		case target.Recoverer == nil && target.Maintainer == nil:
			return &ConfigError{fmt.Sprintf("Target[%d]", i), fmt.Sprintf("%q has neither a Recoverer nor a Maintainer", target.Name)}
		}
		seen[target.Name] = true
	}
	return nil
}
