package main

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgqueue/pgqueue/doctor"
)

// doctorFlags are what an examination is asked.
type doctorFlags struct {
	roles    []string
	purposes []string
	only     []string
	failOn   string
	timeout  time.Duration
}

func (a *app) doctorCommand() *cobra.Command {
	var flags doctorFlags
	command := &cobra.Command{
		Use: "doctor", Short: "Examine the installation: what is wrong, why it matters, what mends it", Args: cobra.NoArgs,
		Long: `Compares the schema with what the migrations make and looks at roles, rights, settings, dead rows, what keeps vacuum from removing
them, jobs and queues that nobody serves. It changes nothing, costs far less than a second, and works on a standby; what the role may
not see is listed as skipped. docs/doctor.md explains each check, and pgqueue doctor checks lists them.

The exit code is 7 if there is a finding of at least --fail-on.`,
		Example: `  pgqueue doctor
  pgqueue doctor --fail-on warning --json
  pgqueue doctor --role app=worker,producer --role web=producer
  pgqueue doctor --only oldest-xmin,dead-rows`,
		RunE: func(command *cobra.Command, _ []string) error {
			threshold, err := flags.threshold()
			if err != nil {
				return err
			}
			options, err := flags.options(a.schema())
			if err != nil {
				return err
			}
			pool, err := a.open(command.Context())
			if err != nil {
				return err
			}
			defer pool.Close()
			report, err := doctor.Examine(command.Context(), pool, options)
			if err != nil {
				return err
			}
			if a.flags.json {
				err = a.writeJSON(report)
			} else {
				err = a.printf("%s", report)
			}
			if err == nil && threshold != 0 && report.Worst() >= threshold {
				return &exitError{code: exitFindings}
			}
			return err
		},
	}
	set := command.Flags()
	set.StringVar(&flags.failOn, "fail-on", "error", "the least severity that gives exit code 7: info, warning, error or never")
	completes(command, "fail-on", "info", "warning", "error", "never")
	set.StringArrayVar(&flags.roles, "role", nil, "a role and what it is meant to do, NAME=PURPOSE,…; purposes: worker, producer, operator, watcher, viewer (repeatable)")
	set.StringSliceVar(&flags.purposes, "purpose", nil, "what the role of this connection is meant to do")
	set.StringSliceVar(&flags.only, "only", nil, "make only the checks with these ids")
	set.DurationVar(&flags.timeout, "statement-timeout", 0, "bound of each query (default 5s)")
	command.AddCommand(a.doctorChecksCommand())
	return command
}

// threshold is --fail-on; zero for never.
func (f *doctorFlags) threshold() (doctor.Severity, error) {
	if f.failOn == "never" {
		return 0, nil
	}
	var severity doctor.Severity
	if err := severity.UnmarshalText([]byte(f.failOn)); err != nil || severity == 0 {
		return 0, usage("--fail-on must be info, warning, error or never, not %q", f.failOn)
	}
	return severity, nil
}

// options are what the doctor is asked.
func (f *doctorFlags) options(schema string) (doctor.Options, error) {
	options := doctor.Options{Schema: schema, Only: f.only, StatementTimeout: f.timeout}
	known := func(id string) bool {
		return slices.ContainsFunc(doctor.Checks(), func(check doctor.Check) bool { return check.ID == id })
	}
	for _, id := range f.only {
		if !known(id) {
			return options, withHint(usage("--only: there is no check %q", id), "pgqueue doctor checks lists them")
		}
	}
	if len(f.purposes) > 0 {
		purposes, err := purposesOf("--purpose", f.purposes)
		if err != nil {
			return options, err
		}
		options.Roles = append(options.Roles, doctor.Role{Purposes: purposes})
	}
	for _, text := range f.roles {
		role := doctor.Role{Name: text}
		// The last equals sign: a role's name may have one, a purpose has none.
		if at := strings.LastIndexByte(text, '='); at >= 0 {
			role.Name = text[:at]
			var err error
			if role.Purposes, err = purposesOf("--role", strings.Split(text[at+1:], ",")); err != nil {
				return options, err
			}
		}
		if role.Name == "" {
			return options, usage("--role %q names no role: NAME=PURPOSE,…, or --purpose for the role of this connection", text)
		}
		options.Roles = append(options.Roles, role)
	}
	return options, nil
}

func purposesOf(flag string, words []string) ([]doctor.Purpose, error) {
	var purposes []doctor.Purpose
	for _, word := range words {
		switch purpose := doctor.Purpose(strings.TrimSpace(word)); purpose {
		case doctor.Worker, doctor.Producer, doctor.Operator, doctor.Watcher, doctor.Viewer:
			purposes = append(purposes, purpose)
		default:
			return nil, usage("%s: %q is no purpose: worker, producer, operator, watcher, viewer", flag, word)
		}
	}
	return purposes, nil
}

func (a *app) doctorChecksCommand() *cobra.Command {
	return &cobra.Command{
		Use: "checks", Short: "List what the doctor looks at", Args: cobra.NoArgs,
		Example: `  pgqueue doctor checks`,
		RunE: func(*cobra.Command, []string) error {
			type checkView struct {
				ID       string          `json:"id"`
				Severity doctor.Severity `json:"severity"`
				Meaning  string          `json:"meaning"`
			}
			var views []checkView
			var rows [][]string
			for _, check := range doctor.Checks() {
				views = append(views, checkView{check.ID, check.Severity, check.Meaning})
				rows = append(rows, []string{check.ID, check.Severity.String(), check.Meaning})
			}
			if a.flags.json {
				return a.writeJSON(map[string]any{"checks": views})
			}
			return a.writeTable([]string{"ID", "WORST", "MEANING"}, rows)
		},
	}
}
