package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// settings are what the environment asks for.
type settings struct {
	jobs      int      // JOBS: how many a drain takes. Default 200,000
	rounds    int      // ROUNDS: how often each engine runs; the median counts. Default 3
	engines   []string // ENGINES: comma-separated. Default all
	scenarios []string // SCENARIOS: comma-separated. Default all
	profile   string   // CPUPROFILE: where to write a CPU profile of this process
}

func readSettings(getenv func(string) string) (settings settings, err error) {
	if settings.jobs, err = number(getenv, "JOBS", 200_000); err != nil {
		return settings, err
	}
	if settings.rounds, err = number(getenv, "ROUNDS", 3); err != nil {
		return settings, err
	}
	settings.engines = list(getenv("ENGINES"))
	settings.scenarios = list(getenv("SCENARIOS"))
	var known []string
	for _, scenario := range scenarios() {
		known = append(known, scenario.name)
	}
	for _, name := range settings.scenarios {
		if !slices.Contains(known, name) {
			return settings, fmt.Errorf("SCENARIOS: there is no scenario %q; there are %s", name, strings.Join(known, ", "))
		}
	}
	if settings.scenarios == nil {
		settings.scenarios = known
	}
	settings.profile = getenv("CPUPROFILE")
	return settings, nil
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// number reads a positive number.
func number(getenv func(string) string, name string, otherwise int) (int, error) {
	text := getenv(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s must be a positive number, is %q", name, text)
	}
	return n, nil
}

// environment is where the program takes its settings from.
func environment() (settings, error) { return readSettings(os.Getenv) }
