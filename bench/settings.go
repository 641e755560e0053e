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
	jobs      int      // JOBS: instead of each scenario's own number. 0 means that
	seconds   int      // SECONDS: instead of each scenario's own time. 0 means that
	rounds    int      // ROUNDS: how often each engine runs; the median counts. Default 3
	engines   []string // ENGINES: comma-separated. Default all that can run here
	scenarios []int    // SCENARIOS: comma-separated numbers or names. Default all
	profile   string   // CPUPROFILE: where to write a CPU profile of this process
	docs      string   // DOCS: a folder for pages with plots. Default none
	floor     float64  // FLOOR: the run fails where pgqueue drains less than this share of the raw statements. 0 means never
}

// settingNames are the variables in the order in which a command names them.
func settingNames() []string { return []string{"SCENARIOS", "ENGINES", "JOBS", "SECONDS", "ROUNDS"} }

func readSettings(getenv func(string) string) (settings settings, err error) {
	if settings.jobs, err = number(getenv, "JOBS", 0); err != nil {
		return settings, err
	}
	if settings.seconds, err = number(getenv, "SECONDS", 0); err != nil {
		return settings, err
	}
	if settings.rounds, err = number(getenv, "ROUNDS", 3); err != nil {
		return settings, err
	}
	settings.engines = list(getenv("ENGINES"))
	settings.scenarios, err = chooseScenarios(list(getenv("SCENARIOS")))
	if err != nil {
		return settings, err
	}
	settings.profile, settings.docs = getenv("CPUPROFILE"), getenv("DOCS")
	if text := getenv("FLOOR"); text != "" {
		settings.floor, err = strconv.ParseFloat(text, 64)
		if err != nil || !(settings.floor > 0 && settings.floor <= 1) {
			return settings, fmt.Errorf("FLOOR must be above 0 and at most 1, is %q", text)
		}
	}
	return settings, nil
}

// chooseScenarios reads numbers and names; none mean all.
func chooseScenarios(asked []string) (numbers []int, err error) {
	var known []string
	for _, s := range scenarios() {
		known = append(known, fmt.Sprintf("%d %s", s.number, s.name))
		if len(asked) == 0 || slices.Contains(asked, s.name) || slices.Contains(asked, strconv.Itoa(s.number)) {
			numbers = append(numbers, s.number)
		}
	}
	for _, name := range asked {
		if !slices.ContainsFunc(scenarios(), func(s scenario) bool { return name == s.name || name == strconv.Itoa(s.number) }) {
			return nil, fmt.Errorf("SCENARIOS: there is no scenario %q; there are %s", name, strings.Join(known, ", "))
		}
	}
	return numbers, nil
}

// command is how somebody asks for the same.
func command(getenv func(string) string, target string) string {
	text := "make " + target
	for _, name := range settingNames() {
		if value := getenv(name); value != "" {
			text += " " + name + "=" + value
		}
	}
	return text
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
